package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	terms := NewTerms([]string{"svg", "3D scene", "three.js", "矢量图", "ÉTÉ", ".obj"})
	for text, want := range map[string]bool{
		"draw an SVG": true, "svg": true, "SVGs, please": true, "an <svg>": true, "make it in Three.js.": true,
		"3d Scenes":  true,
		"a 3d scene": true, "logo.svg": true, "svg/svg2": true,
		"画一个矢量图吧": true, "画svg图": true, "été": true, "mesh.OBJ": true,
		"as `svg`": true, "@svg": true, "[svg]": true, "{svg}": true, "/svg:": true, "svgz": false, "Zsvg": false,
		"asvg": false, "svgA": false, "0svg": false, "svg9": false, "svgr": false, "an SVGS": true,
		"": false, "svgo": false, "mysvg": false, "3d": false, "scene": false, "3d-scene": false, "three js": false,
		"svg2":     false,
		"an svgss": false, "sv": false, "a.object": false,
	} {
		require.Equal(t, want, terms.In(text), "%q", text)
	}
	require.False(t, Terms{}.In("svg"))
	require.False(t, NewTerms(nil).In("svg"))
	require.False(t, terms.In(strings.Repeat("svgsvg", 1000)))
}

func TestDefaultTerms(t *testing.T) {
	t.Parallel()
	config, diags := loadText(t, minimal)
	require.NoError(t, diags.Err())
	for _, text := range []string{"Draw a pelican as SVG", "a 3D scene with a cube", "use three.js", "a WebGL demo"} {
		require.True(t, config.Special.Graphics.In(text), text)
	}
	for _, text := range []string{"What is the capital of France?", "a scene in three acts", "3 days"} {
		require.False(t, config.Special.Graphics.In(text), text)
	}
	require.Zero(t, config.Special.LongContextAbove)
}
