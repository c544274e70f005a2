// paged_decode.go: gqa from Go by cgo: one decode step on keys and values that lie in pages.
// Owns: two sequences of different lengths, one new query token each, on the CPU in bfloat16; attention written out as
// a loop, whose numbers the library's must be. Exits with 1 where they are not.
// Never: needs anything but Go, a C compiler, pkg-config and an installed gqa; where the loader does not know its
// folder, LD_LIBRARY_PATH does. Never gives C a pointer to Go's memory that holds pointers: tensors and calls are C's.
//
//	go run paged_decode.go
package main

// #cgo pkg-config: gqa
// #include <gqa.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"unsafe"
)

const (
	qHeads, kvHeads, dim, page, pages, columns = 8, 2, 64, 16, 6, 3
	batch                                      = 2
)

var (
	int32s    = C.DLDataType{code: C.kDLInt, bits: 32, lanes: 1}
	bfloat16s = C.DLDataType{code: C.kDLBfloat, bits: 16, lanes: 1}
	lengths   = []int32{37, 20}           // keys of each sequence, its new token's among them
	table     = []int32{4, 1, 3, 5, 0, 0} // its pages in order; past a length, any number
)

// inC gives room for so many zeros in C's memory, which this program leaves to its end.
func inC[T any](count int) []T {
	return unsafe.Slice((*T)(C.calloc(C.size_t(count), C.size_t(unsafe.Sizeof(*new(T))))), count)
}

// tensor copies the data into one of C's. No strides: compact.
func tensor[T any](data []T, dtype C.DLDataType, shape ...C.int64_t) *C.DLTensor {
	copied, sizes, made := inC[T](len(data)), inC[C.int64_t](len(shape)), &inC[C.DLTensor](1)[0]
	copy(copied, data)
	copy(sizes, shape)
	made.data, made.shape, made.ndim, made.dtype = unsafe.Pointer(&copied[0]), &sizes[0], C.int32_t(len(shape)), dtype
	made.device.device_type = C.kDLCPU
	return made
}

// bfloat16 is the upper half of a float: to nearest, ties to even, and back.
func toBF16(number float32) uint16 {
	bits := math.Float32bits(number)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
func fromBF16(half uint16) float64 { return float64(math.Float32frombits(uint32(half) << 16)) }

func random(count int) []uint16 { // in [-1, 1)
	made := make([]uint16, count)
	for i := range made {
		made[i] = toBF16(rand.Float32()*2 - 1)
	}
	return made
}

func check(status C.gqa_status) {
	if status != C.GQA_OK {
		log.Fatal(C.GoString(C.gqa_last_error()))
	}
}

func decode(q, k, v []uint16) []uint16 {
	options := C.gqa_options{device: C.CString("host")}
	options.size = C.size_t(unsafe.Sizeof(options))
	var handle C.gqa_handle
	check(C.gqa_create(&options, &handle))
	defer C.gqa_destroy(handle)
	call := C.gqa_call{causal: 1}
	call.size = C.size_t(unsafe.Sizeof(call))
	call.cache_seqlens = tensor(lengths, int32s, batch)
	call.page_table = tensor(table, int32s, batch, columns)
	out := tensor(make([]uint16, len(q)), bfloat16s, batch, 1, qHeads, dim)
	check(C.gqa_run_ex(handle, tensor(q, bfloat16s, batch, 1, qHeads, dim),
		tensor(k, bfloat16s, pages, page, kvHeads, dim), tensor(v, bfloat16s, pages, page, kvHeads, dim), out, &call))
	return unsafe.Slice((*uint16)(out.data), len(q))
}

// expected is query head `head` of sequence b, in double precision.
func expected(q, k, v []uint16, b, head int) []float64 {
	row, sum := make([]float64, dim), 0.0
	for j := 0; j < int(lengths[b]); j++ {
		inPages := int(table[b*columns+j/page])*page + j%page
		key := (inPages*kvHeads + head/(qHeads/kvHeads)) * dim
		score := 0.0
		for d := 0; d < dim; d++ {
			score += fromBF16(q[(b*qHeads+head)*dim+d]) * fromBF16(k[key+d])
		}
		weight := math.Exp(score / math.Sqrt(dim))
		sum += weight
		for d := range row {
			row[d] += weight * fromBF16(v[key+d])
		}
	}
	for d := range row {
		row[d] /= sum
	}
	return row
}

func main() {
	q, k, v := random(batch*qHeads*dim), random(pages*page*kvHeads*dim), random(pages*page*kvHeads*dim)
	out := decode(q, k, v)
	worst := 0.0
	for row := 0; row < batch*qHeads; row++ {
		for d, number := range expected(q, k, v, row/qHeads, row%qHeads) {
			worst = math.Max(worst, math.Abs(number-fromBF16(out[row*dim+d]))) // NaN stays
		}
	}
	fmt.Printf("Go: gqa %d, largest error %.5f in %d numbers\n", C.gqa_version(), worst, len(out))
	if !(worst < 0.01) {
		os.Exit(1)
	}
}
