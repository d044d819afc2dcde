package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// image is one that lies in a folder by the OCI image layout.
type image struct {
	layers []string // files, the lowest first; compressed as a registry would keep them
	pulled int64    // bytes of all layers
	config imageConfig
}

// imageConfig is what of an image's configuration is looked at.
type imageConfig struct {
	Architecture string
	OS           string
	Config       struct {
		User         string
		ExposedPorts map[string]struct{}
		Env          []string
		Entrypoint   []string
		Cmd          []string
		Labels       map[string]string
	}
}

// descriptor points to a blob.
type descriptor struct {
	Digest string
	Size   int64
}

func (d descriptor) file(folder string) string {
	algorithm, sum, _ := strings.Cut(d.Digest, ":")
	return filepath.Join(folder, "blobs", algorithm, sum)
}

func (i *image) platform() string { return i.config.OS + "/" + i.config.Architecture }

// readImage reads a layout that holds one image.
func readImage(folder string) (*image, error) {
	var index struct{ Manifests []descriptor }
	if err := readJSON(filepath.Join(folder, "index.json"), &index); err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("%d images, must be one", len(index.Manifests))
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := readJSON(index.Manifests[0].file(folder), &manifest); err != nil {
		return nil, err
	}
	i := &image{}
	for _, layer := range manifest.Layers {
		i.layers = append(i.layers, layer.file(folder))
		i.pulled += layer.Size
	}
	return i, readJSON(manifest.Config.file(folder), &i.config)
}

func readJSON(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// unpack lays the layers over each other in a new folder, which the caller removes. Files that a layer takes away are none
// of ours: the Dockerfile's last stage only adds.
func (i *image) unpack(ctx context.Context) (string, error) {
	root, err := os.MkdirTemp("", "holdfast-image-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(root, 0o755); err != nil {
		return "", err
	}
	for _, layer := range i.layers {
		tar := exec.CommandContext(ctx, "tar", "--extract", "--gzip", "--numeric-owner", "--same-permissions",
			"--directory", root, "--file", layer)
		if output, err := tar.CombinedOutput(); err != nil {
			return "", fmt.Errorf("unpack: %w: %s", err, output)
		}
	}
	return root, nil
}
