// attention_form.cc: see attention_form.h. attention_match.cc finds q, k, v and out; here their dimensions become
// batch, heads and rows with one stride each.
#include "search/graph/attention/attention_form.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "search/graph/attention/attention_match.h"

namespace gqa {
namespace {

// A tensor's dimensions as some operator sees them.
struct View {
  Dims sizes, strides;

  std::size_t rank() const { return sizes.size(); }
};

View whole(const TensorSpec& spec) { return {spec.dims, strides_of(spec)}; }

void insert_one(View* view, std::int64_t dim) {
  view->sizes.insert(view->sizes.begin() + dim, 1);
  view->strides.insert(view->strides.begin() + dim, 0);
}

void erase_one(View* view, std::int64_t dim) {
  view->sizes.erase(view->sizes.begin() + dim);
  view->strides.erase(view->strides.begin() + dim);
}

std::int64_t from_start(std::int64_t dim, std::size_t rank) {
  return dim < 0 ? dim + static_cast<std::int64_t>(rank) : dim;
}

// Dimension i of the result is dimension order[i]; `back`: the other way round.
void permute(View* view, const Dims& order, bool back) {
  const View from = *view;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto other = static_cast<std::size_t>(order[at]);
    view->sizes[back ? other : at] = from.sizes[back ? at : other];
    view->strides[back ? other : at] = from.strides[back ? at : other];
  }
}

View through(View view, const std::vector<ScoreStep>& views) {
  for (const ScoreStep& step : views) {
    if (step.op == Op::kTranspose) permute(&view, step.attributes.dims, false);
    if (step.op == Op::kSqueeze) erase_one(&view, from_start(step.attributes.dim, view.rank()));
    if (step.op == Op::kUnsqueeze) insert_one(&view, from_start(step.attributes.dim, view.rank() + 1));
  }
  return view;
}

// What the views were made of, given what they made.
View before(View view, const std::vector<ScoreStep>& views) {
  for (auto step = views.rbegin(); step != views.rend(); ++step) {
    if (step->op == Op::kTranspose) permute(&view, step->attributes.dims, true);
    if (step->op == Op::kSqueeze) insert_one(&view, from_start(step->attributes.dim, view.rank() + 1));
    if (step->op == Op::kUnsqueeze) erase_one(&view, from_start(step->attributes.dim, view.rank()));
  }
  return view;
}

View operand_view(const KernelGraph& graph, const AttentionOperand& operand) {
  View view = through(whole(graph.spec(operand.tensor)), operand.views);
  if (!operand.transposed || view.rank() < 2) return view;
  std::swap(view.sizes[view.rank() - 2], view.sizes[view.rank() - 1]);
  std::swap(view.strides[view.rank() - 2], view.strides[view.rank() - 1]);
  return view;
}

// As many dimensions as out has; nothing is stepped over where there is one element.
bool align_rank(std::size_t rank, View* view) {
  if (view->rank() < 2 || view->rank() > rank) return false;
  while (view->rank() < rank) insert_one(view, 0);
  for (std::size_t at = 0; at < rank; ++at) {
    if (view->sizes[at] == 1) view->strides[at] = 0;
  }
  return true;
}

enum Tensor : std::size_t { kQ, kK, kV, kOut, kTensors };

// (..., rows, columns) of q, k, v and out, of equal rank.
struct Views {
  View of[kTensors];

  std::size_t leading() const { return of[kOut].rank() - 2; }
  std::int64_t size(std::size_t dim) const { return of[kOut].sizes[dim]; }
  bool stretched(Tensor tensor, std::size_t dim) const { return of[tensor].sizes[dim] == 1; }
};

std::optional<Views> views_of(const KernelGraph& graph, const AttentionMatch& match) {
  Views views = {{operand_view(graph, match.q), operand_view(graph, match.k), operand_view(graph, match.v),
                  before(whole(graph.spec(match.out)), match.views)}};
  for (View& view : views.of) {
    if (!align_rank(views.of[kOut].rank(), &view)) return std::nullopt;
  }
  return views;
}

// Leading dimensions, outermost first, that count as one.
struct Merged {
  std::int64_t size = 1;
  std::int64_t strides[kTensors] = {};
};

// Nothing where some tensor has no single stride for them.
std::optional<Merged> merge(const Views& views, const std::vector<std::size_t>& dims,
                            const std::vector<Tensor>& tensors) {
  Merged merged;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    for (const Tensor tensor : tensors) {
      const std::int64_t stride = views.of[tensor].strides[*dim];
      if (merged.size > 1 && stride != merged.size * merged.strides[tensor]) return std::nullopt;
      if (merged.size == 1) merged.strides[tensor] = stride;
    }
    merged.size *= views.size(*dim);
  }
  return merged;
}

struct Heads {
  std::vector<std::size_t> batch, kv, group;  // leading dimensions
};

// The innermost dimensions that keys have are heads, those that keys are stretched over are groups of them.
std::vector<Heads> ways(const Views& views) {
  std::vector<std::size_t> plain, group;
  for (std::size_t dim = 0; dim < views.leading(); ++dim) {
    if (views.size(dim) == 1) continue;
    (views.stretched(kK, dim) && views.stretched(kV, dim) ? group : plain).push_back(dim);
  }
  std::vector<Heads> found;
  const auto add = [&](std::size_t batches) {
    const auto at = plain.begin() + static_cast<std::ptrdiff_t>(batches);
    found.push_back({{plain.begin(), at}, {at, plain.end()}, group});
  };
  const std::size_t preferred = plain.empty() ? 0 : plain.size() == 1 && group.empty() ? 1 : plain.size() - 1;
  add(preferred);
  for (std::size_t batches = plain.size() + 1; batches-- > 0;) {
    if (batches != preferred) add(batches);
  }
  return found;
}

bool fits(std::int64_t size) { return size <= std::numeric_limits<std::int32_t>::max(); }

// Sizes and strides of batch and heads, where the tensors have them.
bool place(const Views& views, const Heads& heads, AttentionForm* form) {
  std::vector<std::size_t> q_heads = heads.kv;
  q_heads.insert(q_heads.end(), heads.group.begin(), heads.group.end());
  const auto batch = merge(views, heads.batch, {kQ, kK, kV, kOut});
  const auto kv = merge(views, heads.kv, {kK, kV}), q = merge(views, q_heads, {kQ, kOut});
  if (!batch || !kv || !q || !fits(batch->size) || !fits(q->size)) return false;
  form->problem.batch = static_cast<std::int32_t>(batch->size);
  form->problem.q_heads = static_cast<std::int32_t>(q->size);
  form->problem.kv_heads = static_cast<std::int32_t>(kv->size);
  AttentionView* of[kTensors] = {&form->q, &form->k, &form->v, &form->out};
  for (std::size_t tensor = 0; tensor < kTensors; ++tensor) {
    of[tensor]->batch = batch->strides[tensor];
    of[tensor]->head = (tensor == kK || tensor == kV ? kv : q)->strides[tensor];
  }
  return true;
}

// Rows and columns; false where a row's elements do not lie side by side.
bool place_rows(const Views& views, AttentionForm* form) {
  const std::size_t row = views.leading(), column = row + 1;
  Problem& p = form->problem;
  for (const std::int64_t size : {views.of[kQ].sizes[row], views.of[kK].sizes[row], views.of[kOut].sizes[column]}) {
    if (!fits(size)) return false;
  }
  p.q_len = static_cast<std::int32_t>(views.of[kQ].sizes[row]);
  p.kv_len = static_cast<std::int32_t>(views.of[kK].sizes[row]);
  p.head_dim = static_cast<std::int32_t>(views.of[kK].sizes[column]);
  p.head_dim_v = static_cast<std::int32_t>(views.of[kV].sizes[column]);
  AttentionView* of[kTensors] = {&form->q, &form->k, &form->v, &form->out};
  for (std::size_t tensor = 0; tensor < kTensors; ++tensor) {
    of[tensor]->row = views.of[tensor].strides[row];
    of[tensor]->column = views.of[tensor].strides[column];
  }
  p.keys = form->k.column != 1 && form->k.row == 1 ? KeyLayout::kTransposed : KeyLayout::kDense;
  return form->q.column == 1 && form->v.column == 1 && form->out.column == 1 &&
         (form->k.column == 1 || p.keys_transposed());
}

// What a call of these strides is to kernels that copy 16 bytes at a time or through tensor maps.
void fill_alignment(AttentionForm* form) {
  constexpr std::int64_t kVector = 16, kReach = std::int64_t{1} << 40;  // bytes
  Problem& p = form->problem;
  const bool trans = p.keys_transposed();
  const std::int64_t bytes = element_bytes(p.q_type);
  struct Step {
    std::int64_t stride;
    std::int64_t size;
  };
  bool aligned = true, mappable = true;
  const auto look = [&](const AttentionView& view, std::int64_t heads, Step rows) {
    for (const Step& step : {Step{view.batch, p.batch}, Step{view.head, heads}, rows}) {
      aligned = aligned && step.stride * bytes % kVector == 0;
      mappable = mappable && (step.size - 1) * step.stride < kReach / bytes;
    }
  };
  look(form->q, p.q_heads, {form->q.row, p.q_len});
  look(form->k, p.kv_heads, trans ? Step{form->k.column, p.head_dim} : Step{form->k.row, p.kv_len});
  look(form->v, p.kv_heads, {form->v.row, p.kv_len});
  look(form->out, p.q_heads, {form->out.row, p.q_len});
  p.align = aligned ? 16 : 2;
  p.tma = aligned && mappable;
}

bool fill_dtype(const KernelGraph& graph, AttentionForm* form) {
  const ElementType type = graph.spec(form->q.tensor).type;
  for (const AttentionView* view : {&form->k, &form->v, &form->out}) {
    if (graph.spec(view->tensor).type != type) return false;
  }
  form->problem.set_types(type);
  return type != ElementType::kF32;
}

// Causal, or none where the window hides nothing.
bool fill_mask(const Attributes& window, Problem* problem) {
  const bool all_before = window.left >= problem->kv_len - 1, all_after = window.right >= problem->q_len - 1;
  if (all_before && all_after) return true;
  problem->mask = Mask::kCausal;
  return all_before && window.right == 0;
}

double factor_of(const ScoreStep& scale) {
  return scale.attributes.factor / static_cast<double>(scale.attributes.count);
}

bool positive_scale(const ScoreStep& step) { return step.op == Op::kScale && factor_of(step) > 0; }

// A score that the mask hid stays hidden under these.
bool keeps_hidden(const ScoreStep& step) { return step.op == Op::kAddConstant || positive_scale(step); }

// A graph's steps as a chain, their constants as its slots. add() is false where there is no room.
class ChainWriter {
 public:
  explicit ChainWriter(AttentionForm* form) : chain_(&form->problem.chain), slots_(&form->slots) {}

  bool add(const ScoreStep& step) {
    const Attributes& constants = step.attributes;
    switch (step.op) {
      case Op::kScale:
        return add(Op::kMul, {factor_of(step)});
      case Op::kAddConstant:
        return add(Op::kAdd, {constants.factor});
      case Op::kClamp:
        return add(Op::kClamp, {constants.low, constants.high});
      default:
        return add(step.op, {});
    }
  }

 private:
  bool add(Op op, std::initializer_list<double> numbers) {
    if (chain_->count == kMostChainSteps || numbers.size() + used_ > slots_->size()) return false;
    ChainStep& step = chain_->steps[chain_->count++] = {op};
    if (numbers.size() > 0) step = {op, ChainOperand::kSlot, static_cast<std::uint8_t>(used_)};
    for (const double number : numbers) (*slots_)[used_++] = static_cast<float>(number);
    return true;
  }

  ScoreChain* chain_;
  ScoreSlots* slots_;
  std::size_t used_ = 0;
};

// tanh and a factor after the scale are a soft cap by that factor.
void name_softcap(double* scale, AttentionForm* form) {
  ScoreChain &chain = form->problem.chain, capped = softcap_chain();
  if (chain.count != 2 || chain.steps[0] != capped.steps[1] || chain.steps[1] != capped.steps[2]) return;
  chain = capped;
  *scale *= double{form->slots[kSoftcapSlot]};
}

// The mask goes last; scalings first are one. The softmax takes no factor that turns the order of scores around.
bool fill_chain(const std::vector<ScoreStep>& scores, AttentionForm* form) {
  bool masked = false;
  double scale = 1;
  ChainWriter chain(form);
  for (const ScoreStep& step : scores) {
    if (step.op == Op::kMask) {
      if (masked || !fill_mask(step.attributes, &form->problem)) return false;
      masked = true;
      continue;
    }
    if (masked && !keeps_hidden(step)) return false;
    if (!form->problem.chain.any() && positive_scale(step))
      scale *= factor_of(step);
    else if (!chain.add(step))
      return false;
  }
  if (!(factor_of(folded(form->problem.chain).after, form->slots) > 0)) return false;
  name_softcap(&scale, form);
  form->scale = static_cast<float>(scale);
  return true;
}

}  // namespace

std::optional<AttentionForm> attention_form(const KernelGraph& graph) {
  const auto match = match_attention(graph);
  if (!match) return std::nullopt;
  AttentionForm form;
  form.q.tensor = match->q.tensor;
  form.k.tensor = match->k.tensor;
  form.v.tensor = match->v.tensor;
  form.out.tensor = match->out;
  const auto views = views_of(graph, *match);
  if (!views || !fill_dtype(graph, &form) || !place_rows(*views, &form) || !fill_chain(match->scores, &form))
    return std::nullopt;
  for (const Heads& heads : ways(*views)) {
    if (!place(*views, heads, &form)) continue;
    fill_alignment(&form);
    if (!check(form.problem).ok()) return std::nullopt;
    return form;
  }
  return std::nullopt;
}

}  // namespace gqa
