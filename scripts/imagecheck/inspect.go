package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// What an image's size is asked about: its layers as a registry keeps and sends them.
	maxPulled = 40_000_000 // bytes
	// So that growth is noticed: the program alone has 41 MB, most of it libraries that reflection keeps whole.
	maxUnpacked = 45_000_000
	entrypoint  = "/usr/local/bin/holdfast"
)

// identity is what is stamped on an image and into its program.
type identity struct{ version, revision string }

// inspect checks what an image says of itself, and the program that is in it.
func inspect(i *image, root string, want identity) error {
	c := i.config.Config
	var wrong []error
	expect := func(what string, got, want any) {
		if got, want := fmt.Sprint(got), fmt.Sprint(want); got != want {
			wrong = append(wrong, fmt.Errorf("%s: %s, must be %s", what, got, want))
		}
	}
	expect("entrypoint", c.Entrypoint, []string{entrypoint})
	expect("command", c.Cmd, []string{"serve"})
	expect("label version", c.Labels["org.opencontainers.image.version"], want.version)
	expect("label revision", c.Labels["org.opencontainers.image.revision"], want.revision)
	ports := []string{}
	for port := range c.ExposedPorts {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	expect("ports", ports, []string{"50051/tcp", "9464/tcp"})
	if !isNumberedUser(c.User) {
		wrong = append(wrong, fmt.Errorf("user: %q, must be UID:GID in numbers and not root", c.User))
	}
	if i.pulled >= maxPulled {
		wrong = append(wrong, fmt.Errorf("size: %d bytes, must be below %d", i.pulled, maxPulled))
	}
	wrong = append(wrong, inspectProgram(filepath.Join(root, entrypoint), i.config.Architecture))
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	unpacked, err := bytesIn(root)
	if err != nil {
		return err
	}
	if unpacked >= maxUnpacked {
		return fmt.Errorf("size: %d bytes unpacked, must be below %d", unpacked, maxUnpacked)
	}
	seen(i, "user %s, entrypoint %v, command %v, version %s, a static program", c.User, c.Entrypoint, c.Cmd, want.version)
	seen(i, "%.1f MB to pull, %.1f MB unpacked", float64(i.pulled)/1e6, float64(unpacked)/1e6)
	return nil
}

func bytesIn(root string) (bytes int64, err error) {
	err = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// isNumberedUser: Kubernetes can not check a name for runAsNonRoot.
func isNumberedUser(user string) bool {
	uid, gid, _ := strings.Cut(user, ":")
	u, uidErr := strconv.Atoi(uid)
	g, gidErr := strconv.Atoi(gid)
	return uidErr == nil && gidErr == nil && u > 0 && g > 0
}

// inspectProgram checks that a program needs no library and is for the image's kind of machine.
func inspectProgram(path, architecture string) error {
	program, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer program.Close()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if machine, known := machines[architecture]; !known || program.Machine != machine {
		return fmt.Errorf("program: for %v, in an image for %s", program.Machine, architecture)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			return errors.New("program: is not static")
		}
	}
	return nil
}
