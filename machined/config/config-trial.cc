#include "machined/config/config-trial.h"

#include <string.h>

#include "common/base/file.h"
#include "machined/config/config-sources.h"

namespace talos::machined {
namespace {
constexpr kj::StringPtr kTrialMagic = "onTrial1"_kj;
}

Trial::~Trial() noexcept(false) {
  zeroize(before);
  zeroize(tried);
}

kj::Maybe<Trial> takeTrial(Process1& process1) {
  KJ_IF_MAYBE (held, takeHeldText(process1, kTrialName, kTrialMagic, 2 * kMostConfigBytes)) {
    auto split = held->numbers[1];
    if (split > held->text.size()) return nullptr;
    auto deadline =
        kj::origin<kj::TimePoint>() + static_cast<int64_t>(held->numbers[0]) * kj::NANOSECONDS;
    return Trial(deadline, kj::heapArray(held->text.slice(0, split)),
                 kj::heapArray(held->text.slice(split, held->text.size())));
  }
  return nullptr;
}

kj::Promise<void> holdTrial(Process1& process1, const Trial& trial) {
  auto text = kj::heapArray<char>(trial.before.size() + trial.tried.size());
  memcpy(text.begin(), trial.before.begin(), trial.before.size());
  memcpy(text.begin() + trial.before.size(), trial.tried.begin(), trial.tried.size());
  auto deadline = (trial.deadline - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS;
  HeldText held(static_cast<uint64_t>(deadline), trial.before.size(), kj::mv(text));
  return holdText(process1, kTrialName, kTrialMagic, held);
}

kj::Promise<void> dropTrial(Process1& process1) {
  return process1.drop(kTrialName);
}

}  // namespace talos::machined
