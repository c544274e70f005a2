// telling.cc: see telling.h.
#include "runtime/session/telling.h"

#include <cstdio>
#include <utility>

#include "runtime/tuner/model_error.h"

namespace gqa {
namespace {

constexpr double kEverySeconds = 1;

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string counted(const char* what, std::int64_t count, std::int64_t of, const char* things) {
  return std::string(what) + " " + std::to_string(count) + " of " + std::to_string(of) + " " + things;
}

double total(const PhaseTimes& times) {
  return times.search + times.compile + times.verify + times.time + times.persist;
}

}  // namespace

std::string to_text(const Progress& progress) {
  switch (progress.phase) {
    case TunePhase::kSearch:
      return "search";
    case TunePhase::kCompile:
      return counted("compile", progress.compiled, progress.kernels, "kernels");
    case TunePhase::kVerify:
      return counted("verify", progress.verified, progress.selected, "candidates");
    case TunePhase::kTime:
      return "race, " + std::to_string(progress.timed) + " timed, best " + number("%.1f us", progress.best_us);
    case TunePhase::kPersist:
      return "keep";
  }
  return "";
}

ProgressFn telling(std::string name, double budget_seconds, std::function<void(const std::string&)> tell,
                   ProgressFn next) {
  if (!tell) return next;
  tell("tuning " + name + ": up to " + number("%.1f s", budget_seconds));
  return [name = std::move(name), tell = std::move(tell), next = std::move(next),
          due = kEverySeconds](const Progress& progress) mutable {
    if (progress.seconds >= due) {
      due = progress.seconds + kEverySeconds;
      tell("tuning " + name + ": " + to_text(progress) + ", " + number("%.1f s", progress.seconds));
    }
    if (next) next(progress);
  };
}

std::string outcome_line(const std::string& name, bool guessed, const ReadyResult& readied,
                         const std::string& disturbed) {
  const cache::WinnerRow& winner = readied.ready->winner;
  std::string chosen;
  for (const Attempt& attempt : readied.attempts) {
    if (attempt.outcome == "winner") chosen = attempt.name;
  }
  const std::string model = to_text(model_error(readied.attempts));
  const std::string time = guessed ? "untimed" : number("%.1f us", winner.median_us);
  return (guessed ? "guessed " : "tuned ") + name + ": " + chosen + ", " + time + ", after " +
         number("%.2f s", total(readied.times)) + (model.empty() ? "" : "; cost model: " + model) +
         (winner.provisional && !disturbed.empty() ? "; provisional, the next process races again: " + disturbed : "");
}

}  // namespace gqa
