//go:build tools

package image3d

import (
	_ "codeberg.org/sbinet/npyio"
	_ "github.com/edsrzf/mmap-go"
	_ "github.com/gomlx/compute/gobackend"
	_ "github.com/gomlx/go-huggingface/hub"
	_ "github.com/gomlx/go-xla/compute/xla"
	_ "github.com/gomlx/gomlx/backends/default"
	_ "github.com/gomlx/gomlx/core/graph"
	_ "github.com/gomlx/gomlx/ml/layers/attention"
	_ "github.com/gomlx/gomlx/ml/nn"
	_ "github.com/qmuntal/gltf/modeler"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/stretchr/testify/require"
	_ "github.com/x448/float16"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/image/draw"
	_ "golang.org/x/sync/errgroup"
)
