// machine.h: what a CUDA kernel compiled for the CPU asks of the emulator that runs it.
// Owns: Machine, the emulator as a kernel sees it; Self, what a thread knows of itself; Operand, one operand of an asm
// statement.
// Never: includes anything: the kernel's side is compiled at test time, and quickly.
// Threads: CUDA threads are fibers of one thread of the system.
#pragma once

namespace gqa::simt {

struct Index3 {
  unsigned x, y, z;
};

// threadIdx and so on.
struct Self {
  Index3 thread, block, block_dim, grid_dim;
  unsigned cluster_rank, cluster_size;  // its CTA's rank, of so many
};

// Where in the source a thread is, for messages.
struct Place {
  const char* file;
  int line;
};

// By its constraint: r, l, f, h, n and so on.
struct Operand {
  char constraint;
  void* written;            // null where it is only read
  unsigned long long bits;  // what is read
};

struct Instruction;

class Machine {
 public:
  // An asm statement's text, once a statement; then each of its executions.
  virtual const Instruction* decode(const char* text) = 0;
  virtual void execute(const Instruction* instruction, const Operand* operands, Place place) = 0;

  // __syncthreads and its votes: how many threads gave true.
  virtual int sync_block(const char* function, bool vote, Place place) = 0;
  // Among the lanes of `mask`, that all call the function of this name: every lane's value.
  virtual void gather(const char* function, unsigned mask, unsigned long long value, unsigned long long (&values)[32],
                      Place place) = 0;

  // Before every access to dynamic shared memory, and to the workspace.
  virtual void access(unsigned long offset, unsigned long bytes, bool write) = 0;
  virtual void access_workspace(unsigned long offset, unsigned long bytes, bool write) = 0;
  virtual char* dynamic_shared() = 0;
  virtual unsigned shared_address(const void* pointer) = 0;
  virtual unsigned long long clock() = 0;
  virtual void trap(const char* what, Place place) = 0;

 protected:
  ~Machine() = default;
};

// What a compiled kernel exports, under the name kBinding. The emulator sets *machine and both memories before a
// launch and *self before a thread goes on; run() is a thread's whole life.
struct Binding {
  Machine** machine;
  const Self** self;
  const char** shared_begin;  // of dynamic shared memory
  unsigned long* shared_bytes;
  const char** workspace_begin;  // that the launch's blocks share
  unsigned long* workspace_bytes;
  void (*run)(void** arguments);
};
inline constexpr const char* kBinding = "gqa_simt_binding";

}  // namespace gqa::simt
