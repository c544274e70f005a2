// device.cc: see device.h.
#include "runtime/device.h"

namespace gqa {

Status compile_and_load(Device& device, const Program& program, std::unique_ptr<LoadedProgram>* loaded) {
  std::vector<Binary> binaries(program.sources.size());
  for (std::size_t at = 0; at < binaries.size(); ++at)
    if (Status status = device.compile(program.sources[at], &binaries[at]); !status.ok()) return status;
  return device.load(program, binaries, loaded);
}

Status compile_and_try(Device& device, const Reference& reference, const Effort& effort,
                       std::unique_ptr<Trial>* trial) {
  Binary checker;
  const Source source = device.checker();
  if (!source.text.empty())
    if (Status status = device.compile(source, &checker); !status.ok()) return status;
  return device.make_trial(reference, checker, effort, trial);
}

}  // namespace gqa
