package auth

import (
	"crypto/tls"
	"os"
)

// ClientTLS is how a server is called whose certificates a CA of its own signs. The file is read once; none: this machine's
// CAs are trusted.
func ClientTLS(ca string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return config, nil
	}
	content, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	if config.RootCAs, err = pool(content); err != nil {
		return nil, inFile(ca, err)
	}
	return config, nil
}

// Show makes connections show a client certificate, which is read again for each.
func Show(config *tls.Config, cert, key string) error {
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, inFile(cert, err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil {
		return err
	}
	config.GetClientCertificate = load
	return nil
}
