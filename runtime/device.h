// device.h: what the runtime asks of a device, the same for a GPU, the host and a test's device.
// Owns: Device (compile, load, trial), LoadedProgram (run), Trial (inputs, reference, clocks), and the plain structs
// they exchange.
// Never: searches, remembers or chooses; tuner.h does, session.h calls.
// Threads: Device::compile may run on many threads at once; LoadedProgram::run too. A Trial belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/call/call.h"
#include "runtime/call/merge_states.h"
#include "runtime/effort.h"
#include "runtime/program.h"
#include "search/device_spec.h"
#include "search/status.h"

namespace gqa {

struct Reference;  // runtime/workload/workload.h

class LoadedProgram;

// One run of any program: addresses in the order of the program's inputs and outputs, or the call that brings its own.
struct ProgramCall {
  const void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* stream = nullptr;  // CUstream; the host ignores it
  const Call* attention = nullptr;
  const LoadedProgram* then = nullptr;  // of Operation::kAppend: what attends, once the cache is appended to
  const MergeCall* merge = nullptr;
};

// What compiling makes and the cache keeps. The host's artefact is the µGraph's text, in `source`.
struct Binary {
  std::string source, ptx, cubin, log;
  int registers = 0, spill_bytes = 0, static_smem = 0;

  // So many spilled registers (bytes a thread) never win and cost time to find out. A few, loop invariants of a tile
  // that fills the register file, often do win: the clock decides about those.
  static constexpr int kHeavySpill = 256;
  bool spills_heavily() const { return spill_bytes > kHeavySpill; }
};

// A program ready to run. run() is the hot path: it allocates nothing once warm, formats nothing, reads no
// environment.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual Status run(const ProgramCall& call) const = 0;
  Status run(const Call& call) const { return run(ProgramCall{nullptr, nullptr, call.stream, &call}); }
  // Whether run() does what a call that appends does first, too. If not, it is run by Operation::kAppend's program.
  virtual bool appends(const Call& call) const {
    (void)call;
    return false;
  }
  // Device memory between the parts of such a call, beyond its tensors.
  virtual std::int64_t workspace_bytes(const Call& call) const {
    (void)call;
    return 0;
  }
};

// What verification bounds (judgement.h): over all rows, in the worst row, of the worst element, of log-sum-exp.
enum class ErrorKind { kAllRows, kRow, kElement, kLse };

// An error and what it may be.
struct Share {
  ErrorKind kind = ErrorKind::kAllRows;
  std::string where;  // the row or the element; of all rows, how many they are
  double error = 0;   // a NaN passes no bound
  double bound = 0;
};

struct Verdict {
  bool passed = false;
  double error = 0;                // closest to its bound, in units of the naive 16-bit computation's (judgement.h)
  double bound = 0;                // what it was allowed
  std::string reason;              // "" if passed; else what was wrong and where the worst element is
  bool out_of_memory = false;      // the program could not be run for lack of memory: nobody's fault
  double run_us = 0;               // of the run at the problem's own lengths, a first look; 0: not timed
  bool hopeless = false;           // that run took longer than Trial::hopeless_us, and there was no other
  std::vector<Share> errors = {};  // of each kind the one closest to its bound, over all runs and outputs
};

// A workload's inputs, outputs and reference on a device. Programs given compute the same.
class Trial {
 public:
  virtual ~Trial() = default;
  // A program whose first run takes longer need not be verified to the end, where the trial times that run.
  double hopeless_us = std::numeric_limits<double>::infinity();
  // Runs the program on poisoned, guarded outputs and compares with the reference.
  virtual Verdict verify(const LoadedProgram& program) = 0;
  // Microseconds a run, one sample per replay, over rotated inputs.
  virtual Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) = 0;
  // Device clock in MHz just now; 0 if it cannot be read.
  virtual double clock_mhz() { return 0; }
  // What others had of the device: of its time since the last call, or of the looks that are taken at it now; 0 to 1.
  virtual double taken_by_others() { return 0; }
  // Fails where no program can run on the device any more, whatever it is: then what failed last is no program's fault.
  virtual Status health() { return {}; }
  // True while a run that was given up goes on: destroying the trial, or what it ran, waits for it.
  virtual bool unfinished() { return false; }
};

class Device {
 public:
  // The DLPack devices whose tensors it may use: of either type (-1: none), and of one number, where that is not -1.
  struct Owned {
    std::array<int, 2> types = {-1, -1};
    int id = -1;
  };
  explicit Device(const Owned& owned) : owned_(owned) {}
  virtual ~Device() = default;
  virtual const DeviceSpec& spec() const = 0;
  // Name and version of the compiler with its options, part of every kernel's key: "nvrtc 13.0 --std=c++17 ...".
  virtual std::string compiler() const = 0;
  // How a trial times, part of every winner's key: "graph replay, rotated inputs, cold L2, 1".
  virtual std::string timing_method() const = 0;
  // How long a race may last where the best so far takes so long; all that is verified before it, three times as long.
  // A GPU's races end by themselves, and compilers take longer.
  virtual double race_seconds(double best_us) const {
    (void)best_us;
    return std::numeric_limits<double>::infinity();
  }
  virtual Status compile(const Source& source, Binary* binary) const = 0;
  // `binaries`: of program.sources.
  virtual Status load(const Program& program, const std::vector<Binary>& binaries,
                      std::unique_ptr<LoadedProgram>* loaded) = 0;
  // The kernels that trials verify with, compiled and cached like any other; its text is "" where there are none.
  virtual Source checker() const { return {}; }
  // `checker`: of checker().
  virtual Status make_trial(const Reference& reference, const Binary& checker, const Effort& effort,
                            std::unique_ptr<Trial>* trial) = 0;
  // True if a tensor with this DLPack device may be used: the hot path's check.
  bool owns(int dl_device_type, int dl_device_id) const {
    const bool of_type = dl_device_type == owned_.types[0] || dl_device_type == owned_.types[1];
    return of_type && (owned_.id == -1 || dl_device_id == owned_.id);
  }
  // Copies bytes of the device's memory, in the stream's order; they do not overlap.
  virtual Status copy(void* to, const void* from, std::size_t bytes, void* stream) const {
    (void)to, (void)from, (void)bytes, (void)stream;
    return {Code::kInternal, "this device copies nothing"};
  }
  // What a checked handle asks before each call: check_lists() of checked.h on the call's lists, read back from the
  // device once the stream's work is done.
  virtual Status check_lists(const Call& call, std::string* odd) const {
    (void)call, (void)odd;
    return {};
  }
  // Asked before a miss. *captured: nothing may be queued on the stream just now but what a capture should hold, or
  // spoil; no stream: nothing is to be queued. Fails where the device no longer works, whoever broke it.
  virtual Status capturing(std::optional<void*> stream, bool* captured) const {
    (void)stream;
    *captured = false;
    return {};
  }

 private:
  const Owned owned_;
};

// Compiles all sources, whatever a cache holds, and loads: for who has no session.
Status compile_and_load(Device& device, const Program& program, std::unique_ptr<LoadedProgram>* loaded);
Status compile_and_try(Device& device, const Reference& reference, const Effort& effort, std::unique_ptr<Trial>* trial);

// "cuda:0", "host", ... -> a device. `threads`: host threads, 0 for all. `nvrtc_path`: "" for the search order.
struct DeviceRequest {
  std::string name = "auto";
  int threads = 0;
  std::string nvrtc_path;
};
Status open_device(const DeviceRequest& request, std::unique_ptr<Device>* device);

// Each device's own constructor; open_device picks. A compile-only device has an architecture and no driver: load() and
// make_trial() fail on it.
Status open_cuda_device(int ordinal, const std::string& nvrtc_path, std::unique_ptr<Device>* device);
Status open_compile_only_device(const std::string& arch, const std::string& nvrtc_path,
                                std::unique_ptr<Device>* device);
Status open_host_device(int threads, std::unique_ptr<Device>* device);

}  // namespace gqa
