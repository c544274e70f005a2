// device.cc: what a device that runs attention only says to a user's graph.
#include "runtime/program.h"

namespace gqa {
namespace {

Status attention_only(const Device& device) {
  return {Code::kNoDevice, "the device " + device.spec().identity() + " runs attention only, no programs of graphs"};
}

}  // namespace

std::string Device::program_source(const PlannedKernel&) const { return ""; }

Status Device::compile_program(const PlannedKernel&, Binary*) const { return attention_only(*this); }

Status Device::load_program(const KernelPlan&, const std::vector<Binary>&, std::unique_ptr<LoadedProgram>*) {
  return attention_only(*this);
}

Status Device::make_program_trial(const KernelGraph&, const Effort&, std::unique_ptr<ProgramTrial>*) {
  return attention_only(*this);
}

}  // namespace gqa
