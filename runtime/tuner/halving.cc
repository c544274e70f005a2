// halving.cc: see halving.h.
#include "runtime/tuner/halving.h"

#include <algorithm>
#include <cstdio>

namespace gqa {
namespace {

constexpr double kFarSlower = 4;  // after a single sample: out, whatever the noise
// A pause of the scheduler may make a sample shorter than this look far slower: it is taken twice.
constexpr double kPauseUs = 50e3;
constexpr double kNoDifference = 0.005;
constexpr int kFirstRound = 4;    // samples; each round after doubles
constexpr int kBriefRound = 2;    // the same of a brief race, after a round of 1
constexpr int kFinalists = 2;     // who only a clear difference drops from a brief race
constexpr int kMostSamples = 64;  // a finalist's
constexpr int kTurn = 4;          // samples a turn, before the next candidate has its turn

class Racing {
 public:
  Racing(const Race& race, std::vector<Runner>* runners) : race_(race), runners_(*runners) {}

  int winner() {
    first_turns();
    if (race_.brief) drop_slower();
    for (int target = race_.brief ? kBriefRound : kFirstRound;
         target <= kMostSamples && !decided() && !race_.out_of_time(); target *= 2) {
      sample_up_to(target);
      drop_slower();
    }
    return choose();
  }

 private:
  // One sample each; whoever is far slower costs no second.
  void first_turns() {
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      if (i > 0 && best() >= 0 && race_.out_of_time()) return;
      take(i, 1);
    }
    const int leader = best();
    if (leader < 0) return;
    const double fastest = runners_[leader].summary.median;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      const Runner& runner = runners_[i];
      if (!runner.racing || runner.samples.empty() || runner.summary.median <= kFarSlower * fastest) continue;
      if (runner.samples.front() < kPauseUs) take(i, 1);
      if (!runner.racing) continue;
      const double least = *std::min_element(runner.samples.begin(), runner.samples.end());
      if (least > kFarSlower * fastest) drop(&runners_[i], fastest);
    }
  }

  void sample_up_to(int target) {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < runners_.size(); ++i) {
        const int missing = target - static_cast<int>(runners_[i].samples.size());
        if (!runners_[i].racing || missing <= 0) continue;
        if (race_.out_of_time()) return;
        take(i, std::min(missing, kTurn));
        more = more || missing > kTurn;
      }
    }
  }

  void take(std::size_t index, int count) {
    Runner& runner = runners_[index];
    if (!runner.racing) return;
    const Status status = race_.sample(index, count, &runner.samples);
    if (!status.ok()) {
      runner.racing = false;
      runner.failed = true;
      runner.why_out = status.message();
    }
    runner.summary = summarize(runner.samples);
    if (race_.progress) race_.progress();
  }

  // The best median among those still racing; -1 if there is none.
  int best() const {
    int leader = -1;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      if (!runners_[i].racing || runners_[i].samples.empty()) continue;
      if (leader < 0 || runners_[i].summary.median < runners_[leader].summary.median) leader = static_cast<int>(i);
    }
    return leader;
  }

  // Drops those of the slower half whose difference from the best is one, and is clear, unless the race is brief. Who
  // had no turn before time was out stays.
  void drop_slower() {
    const int leader = best();
    if (leader < 0) return;
    const Summary& fastest = runners_[leader].summary;
    std::vector<double> medians;
    for (const Runner& runner : runners_) {
      if (runner.racing && !runner.samples.empty()) medians.push_back(runner.summary.median);
    }
    const double middle = median(medians);
    const bool at_once = race_.brief && medians.size() > kFinalists;
    for (Runner& runner : runners_) {
      const bool same = runner.summary.median <= (1 + kNoDifference) * fastest.median;
      if (!runner.racing || runner.samples.empty() || runner.summary.median < middle || same) continue;
      // A more exact one wins where no noise tells them apart, which a sample or two cannot say.
      if (runner.exactness < runners_[leader].exactness && runner.samples.size() < kFirstRound) continue;
      if (at_once || clearly_faster(fastest, runner.summary)) drop(&runner, fastest.median);
    }
  }

  void drop(Runner* runner, double fastest) const {
    runner->racing = false;
    runner->why_out = times_slower(runner->summary.median / fastest);
  }

  // Nothing left to learn: each rival is clearly slower, or surely within kNoDifference.
  bool decided() const {
    const int leader = best();
    if (leader < 0) return true;
    const Runner& fastest = runners_[leader];
    if (fastest.samples.size() < kFirstRound) return false;
    for (const Runner& rival : runners_) {
      if (!rival.racing || &rival == &fastest || clearly_faster(fastest.summary, rival.summary)) continue;
      const double margin = 2 * (fastest.summary.error + rival.summary.error);
      if (rival.summary.median - fastest.summary.median + margin > kNoDifference * fastest.summary.median) return false;
    }
    return true;
  }

  int choose() {
    int chosen = best();
    if (chosen < 0) return -1;
    const Runner& leader = runners_[chosen];
    const double fastest = leader.summary.median;
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      const Runner &rival = runners_[i], &before = runners_[chosen];
      if (!rival.racing || rival.samples.empty()) continue;
      const bool same = rival.summary.median <= fastest * (1 + kNoDifference);
      const bool more_exact = rival.exactness < before.exactness;
      if (more_exact ? same || !clearly_faster(leader.summary, rival.summary)
                     : same && rival.exactness == before.exactness && rival.order < before.order)
        chosen = static_cast<int>(i);
    }
    for (Runner& runner : runners_) {
      if (runner.racing && !runner.samples.empty() && &runner != &runners_[chosen]) {
        runner.why_out = times_slower(runner.summary.median / fastest);
      }
    }
    return chosen;
  }

  const Race& race_;
  std::vector<Runner>& runners_;
};

}  // namespace

std::string times_slower(double factor) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f times the best candidate's time", factor);
  return text;
}

Standing standing(const std::vector<Runner>& runners) {
  Standing now;
  for (const Runner& runner : runners) {
    if (runner.failed || runner.samples.empty()) continue;
    ++now.timed;
    if (now.best_us == 0 || runner.summary.median < now.best_us) now.best_us = runner.summary.median;
  }
  return now;
}

int race(const Race& race, std::vector<Runner>* runners) { return Racing(race, runners).winner(); }

}  // namespace gqa
