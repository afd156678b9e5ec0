#include "machined/confined/login1/locks/inhibitors.h"

#include "common/base/error.h"
#include "common/text/foreign-text.h"

namespace talos::login1 {
namespace {

constexpr kj::StringPtr kShutdown = "shutdown"_kj, kDelay = "delay"_kj;

kj::String oneLineOf(kj::StringPtr text) {
  return fieldText(text, kMostInhibitorText);
}

}  // namespace

Inhibitors::Id Inhibitors::add(Inhibitor lock) {
  if (lock.mode != kDelay) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("locks of mode \"", oneLineOf(lock.mode), "\" are not given; use \"delay\""));
  }
  if (lock.what != kShutdown) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("locks of \"", oneLineOf(lock.what), "\" are not given; use \"shutdown\""));
  }
  if (locks.size() == kMostInhibitors) {
    fail(ErrorKind::kResourceExhausted, kj::str("there are ", kMostInhibitors, " locks already"));
  }
  lock.who = oneLineOf(lock.who);
  lock.why = oneLineOf(lock.why);
  locks.insert(++last, kj::mv(lock));
  return last;
}

void Inhibitors::remove(Id id) {
  locks.erase(id);
}

kj::Vector<kj::String> Inhibitors::holders() const {
  kj::Vector<kj::String> names;
  for (auto& entry : locks) {
    auto& lock = entry.value;
    names.add(lock.pid == 0 ? kj::str(lock.who) : kj::str(lock.who, " (pid ", lock.pid, ")"));
  }
  return names;
}

}  // namespace talos::login1
