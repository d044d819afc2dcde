// Command imagecheck tries images that were pushed as OCI layouts, without a container engine: what they say of themselves,
// what is in them and, of the one for this machine, how it serves with a root that can't be written to, and stops.
//
//	go run ./scripts/imagecheck --version VERSION --revision REVISION FOLDER...
//
// It needs root and Linux. `make image-check` builds the images and calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "imagecheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var want identity
	flags := flag.NewFlagSet("imagecheck", flag.ContinueOnError)
	flags.StringVar(&want.version, "version", "", "the version that the image was built with")
	flags.StringVar(&want.revision, "revision", "", "the revision that the image was built with")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ran := false
	for _, folder := range flags.Args() {
		i, err := readImage(folder)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if err := try(ctx, i, want); err != nil {
			return fmt.Errorf("image for %s: %w", i.platform(), err)
		}
		ran = ran || i.config.Architecture == runtime.GOARCH
	}
	if !ran {
		return fmt.Errorf("no image for this machine (%s) was given, so none was run", runtime.GOARCH)
	}
	return nil
}

// try unpacks an image and checks it; it runs the one of this machine's kind.
func try(ctx context.Context, i *image, want identity) (err error) {
	root, err := i.unpack(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := inspect(i, root, want); err != nil {
		return err
	}
	if i.config.Architecture != runtime.GOARCH {
		return nil
	}
	return serve(ctx, i, root, want)
}

// seen prints what was found to be as it should be.
func seen(i *image, format string, values ...any) {
	fmt.Printf("image %s: %s\n", i.platform(), fmt.Sprintf(format, values...))
}
