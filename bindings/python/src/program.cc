// program.cc: programs. See program.h.
// Threads: entered with the GIL held; it is let go of around the search and around each run.
#include "program.h"

#include "borrow.h"
#include "errors.h"
#include "progress.h"

namespace py = pybind11;

namespace gqa::python {

namespace {

void tell(void* user, const gqa_search_progress* at) {
  static_cast<Progress*>(user)->tell([&](py::dict& told) {
    told["phase"] = at->phase;
    told["explored"] = at->explored;
    told["pruned"] = at->pruned;
    told["proved"] = at->proved;
    told["kernels"] = at->kernels;
    told["compiled"] = at->compiled;
    told["programs"] = at->programs;
    told["verified"] = at->verified;
    told["timed"] = at->timed;
    told["best_us"] = at->best_us;
    told["seconds"] = at->seconds;
  });
}

using Describe = gqa_status (*)(gqa_program, int, int*, int64_t*, DLDataType*);

py::list described_all(gqa_program program, int count, Describe describe) {
  py::list found;
  for (int i = 0; i < count; ++i) {
    int rank = 0;
    int64_t dims[8] = {};
    DLDataType dtype = {};
    if (gqa_status status = describe(program, i, &rank, dims, &dtype); status != GQA_OK) raise_last(status);
    found.append(described(rank, dims, dtype));
  }
  return found;
}

}  // namespace

Program::Program(const Graph& graph, const Handle& handle, SearchOptions options) : owner_(handle.open()) {
  Progress progress = {options.progress, owner_->handle, nullptr};
  gqa_search_options given = {};
  given.size = sizeof(given);
  given.config = options.config ? options.config->c_str() : nullptr;
  given.budget = options.budget;
  given.seed = options.seed;
  given.progress = tell;
  given.progress_user = &progress;
  try {
    const Outcome outcome =
        interruptible(*owner_, [&] { return gqa_graph_superoptimize(graph.get(), owner_->handle, &given, &program_); });
    progress.rethrow();
    owner_->finish(outcome);
  } catch (...) {
    gqa_program_destroy(program_);  // a signal, a callback's exception, a warning that was made an error
    throw;
  }
}

Program::~Program() {
  if (owner_ == nullptr || !owner_->usable_here()) return;
  const Outside outside(&owner_->calls);
  gqa_program_destroy(program_);
}

gqa_program Program::get() const {
  owner_->begin();
  if (owner_->abandoned)
    raise(GQA_ERROR_OPTION, "this program was made before the process forked; superoptimize the graph again here");
  return program_;
}

void Program::run(const std::vector<py::object>& inputs, const std::vector<py::object>& outputs,
                  uintptr_t stream) const {
  const gqa_program program = get();
  const BorrowedAll in(inputs, "input ", "", false), out(outputs, "output ", "", true);
  gqa_status status;
  {
    const Outside outside(&owner_->calls);
    status = gqa_program_run(program, in.data(), in.size(), out.data(), out.size(), reinterpret_cast<void*>(stream));
  }
  if (status != GQA_OK) raise_last(status);
}

void Program::define(py::module_& module) {
  const auto make = [](const Graph& graph, const Handle& handle, std::optional<std::string> config, double budget,
                       uint64_t seed, py::object progress) {
    return std::make_unique<Program>(graph, handle,
                                     SearchOptions{std::move(config), budget, seed, std::move(progress)});
  };
  py::class_<Program>(module, "Program", "A gqa_program. Use KernelGraph.superoptimize, which makes one.")
      .def(py::init(make), py::kw_only(), py::arg("graph"), py::arg("handle"), py::arg("config"), py::arg("budget"),
           py::arg("seed"), py::arg("progress"))
      .def("run", &Program::run, py::arg("inputs"), py::arg("outputs"), py::arg("stream"))
      .def("inputs",
           [](const Program& self) {
             return described_all(self.get(), gqa_program_inputs(self.get()), gqa_program_describe_input);
           })
      .def("outputs",
           [](const Program& self) {
             return described_all(self.get(), gqa_program_outputs(self.get()), gqa_program_describe_output);
           })
      .def("explain", [](const Program& self) { return text_of(gqa_program_explain(self.get())); })
      .def("text", [](const Program& self) { return text_of(gqa_program_text(self.get())); })
      .def("dot", [](const Program& self) { return text_of(gqa_program_dot(self.get())); })
      .def("from_cache", [](const Program& self) { return gqa_program_from_cache(self.get()) == 1; });
}

}  // namespace gqa::python
