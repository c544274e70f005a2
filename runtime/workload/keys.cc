// keys.cc: see keys.h.
#include "runtime/workload/keys.h"

#include <string_view>
#include <vector>

#include "jit/closure.h"
#include "search/version.h"

namespace gqa {
namespace {

void name_kernel(const Device& device, const Source& source, cache::KernelRow* row) {
  row->closure = closure_hash(source.text);
  row->arch = device.spec().arch;
  row->compiler = device.compiler();
  row->key = cache::kernel_key(row->closure, row->arch, row->compiler);
}

}  // namespace

cache::WinnerKey winner_key(const Device& device, const std::string& signature) {
  return {signature, device.spec().identity(),
          "search " + std::to_string(kSearchVersion) + ", " + device.timing_method()};
}

std::string kernel_key(const Device& device, const Source& source) {
  cache::KernelRow row;
  name_kernel(device, source, &row);
  return row.key;
}

cache::KernelRow kernel_row(const Device& device, const Source& source, const Binary& binary) {
  cache::KernelRow row;
  name_kernel(device, source, &row);
  row.family = source.family;
  row.abi = kLaunchAbi;
  row.launch = source.launch;
  row.problem = source.problem;
  row.candidate = source.candidate;
  row.source = binary.source;
  row.ptx = binary.ptx;
  row.cubin = binary.cubin;
  row.log = binary.log;
  row.registers = binary.registers;
  row.spill_bytes = binary.spill_bytes;
  row.static_smem = binary.static_smem;
  return row;
}

cache::WinnerRow winner_row(const Device& device, const std::string& signature, const Program& program) {
  cache::WinnerRow row;
  row.key = winner_key(device, signature);
  row.compiler = device.compiler();
  row.candidate = program.text;
  row.driver = device.spec().driver;
  std::vector<std::string_view> families;
  for (const Source& source : program.sources) families.push_back(source.family);
  row.families = families_text(families);
  return row;
}

std::string outdated(const cache::WinnerRow& row) { return outdated_families(row.families); }

}  // namespace gqa
