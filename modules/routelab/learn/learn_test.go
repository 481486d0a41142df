package learn

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

func write(t *testing.T, dir, name string, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

const head = `{"dataset":"made","models":["weak","strong"],"n":1}`

func TestReadDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "b.train.jsonl.gz"))
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write([]byte(head + "\n" +
		`{"id":7,"g":"t","prompt":"2+2?","s":[0,1],"o":[10,null],"i":5}` + "\n" +
		`{"id":"x","g":"t","prompt":"ls","s":[0.5,1],"o":[20,30],"i":5,"tools":"[{\"name\":\"ls\",\"parameters\":{}}]"}`))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	write(t, dir, "a.jsonl", head, `{"prompt":"p","s":[1,1],"c":[0.25,null]}`)
	write(t, dir, "prices.json", `{"prices":{"strong":[1,2]}}`)

	sets, err := ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, sets, 2)
	require.Equal(t, "a", sets[0].Name)
	require.Equal(t, []int{0}, sets[0].Priced())
	require.InDelta(t, 0.25, sets[0].Rows[0].Cost[0], 1e-12)
	b := sets[1]
	require.Equal(t, "b", b.Name, "up to the first dot")
	require.Equal(t, "7", b.Rows[0].ID)
	require.Equal(t, []int{1}, b.Priced())
	require.True(t, math.IsNaN(b.Rows[0].Output[1]))
	require.InDelta(t, (5*1+30*2)/1e6, b.Rows[0].Cost[1], 1e-15, "an answer that nobody counted has the mean length")
	require.Equal(t, "ls", b.Rows[1].Tools[0].Name)
}

func TestReadDir_errors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"prompt missing":    {`{"s":[0,1]}`, "`prompt` is missing"},
		"scores missing":    {`{"prompt":"p"}`, "0 scores for the 2 models"},
		"too few scores":    {`{"prompt":"p","s":[1]}`, "1 scores for the 2 models"},
		"a score that is 2": {`{"prompt":"p","s":[1,2]}`, "strong is missing or not between 0 and 1"},
		"a score of null":   {`{"prompt":"p","s":[null,1]}`, "weak is missing"},
		"too few answers":   {`{"prompt":"p","s":[1,1],"a":[1]}`, "`a` has 1 answers"},
		"too few tokens":    {`{"prompt":"p","s":[1,1],"o":[1]}`, "`o` has 1 numbers"},
		"too few costs":     {`{"prompt":"p","s":[1,1],"c":[1]}`, "`c` has 1 costs"},
		"negative tokens":   {`{"prompt":"p","s":[1,1],"o":[1,-1]}`, "is negative"},
		"negative input":    {`{"prompt":"p","s":[1,1],"i":-1}`, "is negative"},
		"a negative cost":   {`{"prompt":"p","s":[1,1],"c":[-0.5,null]}`, "leave out what is not known"},
		"no JSON":           {`{"prompt":`, "decoding a prompt"},
		"a score in quotes": {`{"prompt":"p","s":["1",1]}`, "the field `s` is of a wrong type or out of range: string"},
		"a huge score":      {`{"prompt":"p","s":[1e400,1]}`, "`s` is of a wrong type or out of range: number 1e400"},
		"a list":            {`[]`, "it is of the type array, and no object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "d.jsonl", head, `{"prompt":"p","s":[1,1]}`, c.line)
			_, err := ReadDir(dir)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "line 3 of "+filepath.Join(dir, "d.jsonl"))
		})
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"empty":          {"d.jsonl", "", "the file is empty"},
		"no models":      {"d.jsonl", "{}", "the header has no `models`"},
		"a model twice":  {"d.jsonl", `{"models":["a","a"]}`, `"a" twice`},
		"no prompts":     {"d.jsonl", head, "no prompts"},
		"not compressed": {"d.jsonl.gz", head, "name it .jsonl"},
		"prices":         {"prices.json", "[]", "prices"},
		"prices below 0": {"prices.json", `{"prices":{"a":[1,-1]}}`, "a price of a is negative"},
		"no data":        {"d.txt", head, "holds no *.jsonl.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
			_, err := ReadDir(dir)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := ReadDir(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)

	dir := t.TempDir()
	write(t, dir, "d.jsonl", head, `{"prompt":"p","s":[1,1]}`)
	_, err = ReadDir(filepath.Join(dir, "d.jsonl"))
	require.ErrorContains(t, err, "name the folder that it is in")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write([]byte(head + "\n" + strings.Repeat(`{"prompt":"p","s":[1,1]}`+"\n", 1000)))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e.jsonl.gz"), packed.Bytes()[:packed.Len()-20], 0o600))
	_, err = ReadDir(dir)
	require.ErrorContains(t, err, "the packed file ends too early")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e.jsonl.gz"), packed.Bytes(), 0o600))
	sets, err := ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, sets, 2)
	write(t, dir, "d.old.jsonl", head, `{"prompt":"p","s":[1,1]}`)
	_, err = ReadDir(dir)
	require.ErrorContains(t, err, `d.old.jsonl is a second file of the data set "d"`)
}

// made is prompts of two tasks: the strong model alone can do those about matrices.
func made(n int, seed uint64) *Dataset {
	random := rand.New(rand.NewPCG(seed, 1))
	d := &Dataset{Name: "made", Models: []string{"weak", "strong"}}
	for i := range n {
		r := Row{ID: fmt.Sprint(i), Input: 10, Output: []float64{20, 40}, Cost: []float64{0.001, 0.01}}
		if random.IntN(2) == 0 {
			r.Task, r.Score = "easy", []float64{1, 1}
			r.Prompt = fmt.Sprintf("Which colour has the %dth flower in garden %d?", random.IntN(1000), i)
		} else {
			r.Task, r.Score = "hard", []float64{0, 1}
			r.Prompt = fmt.Sprintf("Solve the matrix equation number %d of sheet %d for x.", random.IntN(1000), i)
		}
		if random.IntN(10) == 0 {
			r.Score = []float64{1 - r.Score[0], 1}
		}
		d.Rows = append(d.Rows, r)
	}
	return d
}

func TestTrain(t *testing.T) {
	t.Parallel()
	m, err := Train([]*Dataset{made(300, 1)}, 1)
	require.NoError(t, err)
	file, err := m.Encode()
	require.NoError(t, err)

	t.Run("the same folder and seed give the same file", func(t *testing.T) {
		t.Parallel()
		again, err := Train([]*Dataset{made(300, 1)}, 1)
		require.NoError(t, err)
		copied, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, file, copied)
	})
	t.Run("what is learned holds for other prompts", func(t *testing.T) {
		t.Parallel()
		m, err := predict.Decode(file)
		require.NoError(t, err)
		pool, at, err := m.Pool([]string{"strong", "weak"})
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, at)
		f, s, quality := predict.NewFeatures(), &predict.Signal{}, make([]float64, 2)
		for _, row := range made(50, 2).Rows {
			f.Read(row.Request())
			m.Look(f, s)
			pool.Quality(s, quality)
			require.Equal(t, row.Task == "easy", quality[0] > 0.5, row.Prompt)
			require.Greater(t, quality[1], quality[0])
			tokens, ok := pool.Routes[1].OutputOf(s)
			require.True(t, ok)
			require.InDelta(t, 40, tokens, 1)
			cost, ok := pool.CostOf(0, s)
			require.True(t, ok)
			require.InDelta(t, 0.001, cost, 1e-5)
		}
	})
	t.Run("tasks are told apart, and what each model is worth there", func(t *testing.T) {
		t.Parallel()
		pool := &m.Pools[0]
		require.Len(t, pool.Tasks, 2)
		require.Len(t, pool.Routes[0].ByTask, 2)
		weak, strong := slices.Sorted(slices.Values(pool.Routes[0].ByTask)), pool.Routes[1].ByTask
		require.Less(t, weak[0], float32(0.25), "hard for the weak one")
		require.Greater(t, weak[1], float32(0.75), "and easy")
		require.Greater(t, min(strong[0], strong[1]), float32(0.95))
	})
	t.Run("no prompt is in it", func(t *testing.T) {
		t.Parallel()
		require.NotContains(t, string(file), "matrix equation")
		require.NotContains(t, string(file), "flower")
	})
	t.Run("too little", func(t *testing.T) {
		t.Parallel()
		_, err := Train([]*Dataset{made(3, 1)}, 1)
		require.ErrorContains(t, err, "too few")
	})
}

// Two data sets with the same models are one pool, whatever the order of the models is.
func TestTrain_pools(t *testing.T) {
	t.Parallel()
	other := made(60, 3)
	other.Name, other.Models = "turned", []string{"strong", "weak"}
	for i := range other.Rows {
		s := other.Rows[i].Score
		other.Rows[i].Score = []float64{s[1], s[0]}
	}
	alone := made(60, 4)
	alone.Models = []string{"weak", "third"}
	m, err := Train([]*Dataset{made(60, 1), other, alone}, 1)
	require.NoError(t, err)
	require.Len(t, m.Pools, 2)
	require.Equal(t, []string{"made", "turned"}, m.Pools[0].Datasets)
	require.Equal(t, 120, m.Pools[0].Rows)
	require.Less(t, m.Pools[0].Routes[0].Mean, m.Pools[0].Routes[1].Mean)
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	one := question("Question: Which gas do plants breathe in?\nA. oxygen\nB. carbon dioxide\nAnswer:")
	require.Equal(t, one, question("Which gas do plants breathe in\n(a) helium\n(b) carbon dioxide\n"))
	long := "Is the sea, all in all, deeper than the highest mountains of the Alps are high?\nA) yes\nB) no\n"
	require.Equal(t, question(long), question("One and one?\nA) 1\nB) 2\nAnswer:\nB\n\n"+long+"Print only a single "+
		"choice.\nAnswer:"))
	require.NotEqual(t, one, question("Which gas do people breathe in?"))

	d := made(200, 1)
	train, held := Fold([]*Dataset{d}, 1, 3)
	require.Len(t, d.Rows, len(train[0].Rows)+len(held[0].Rows))
	require.NotEmpty(t, held[0].Rows)
	left := Without([]*Dataset{d}, "hard")
	require.Empty(t, left[0].Only("hard").Rows)
	require.Len(t, left[0].Rows, len(d.Only("easy").Rows))
}

func TestShuffle(t *testing.T) {
	t.Parallel()
	const prompt = "Question: Which?\nA. one\nB. two\nC. three\nAnswer:"
	d := &Dataset{Models: []string{"m"}, Rows: []Row{{Prompt: prompt}, {Prompt: "Say hello."}}}
	got := Shuffle(d, 5).Rows
	require.Equal(t, prompt, d.Rows[0].Prompt, "the original stays")
	require.NotEqual(t, prompt, got[0].Prompt)
	for _, part := range []string{"A. ", "B. ", "C. ", " one\n", " two\n", " three\n", "Which?"} {
		require.Contains(t, got[0].Prompt, part)
	}
	require.NotContains(t, got[0].Prompt, "Question:")
	require.Contains(t, got[1].Prompt, "Say hello.")
	require.NotEqual(t, "Say hello.", got[1].Prompt)
}
