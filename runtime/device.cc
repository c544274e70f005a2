// device.cc: see device.h.
#include "runtime/device.h"

namespace gqa {

Status compile_and_load(Device& device, const Program& program, std::unique_ptr<LoadedProgram>* loaded) {
  std::vector<Binary> binaries(program.sources.size());
  for (std::size_t at = 0; at < binaries.size(); ++at)
    if (Status status = device.compile(program.sources[at], &binaries[at]); !status.ok()) return status;
  return device.load(program, binaries, loaded);
}

}  // namespace gqa
