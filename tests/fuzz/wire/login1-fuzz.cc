// link: machined-confined-login1-locks
// Locks of login1: the arguments of Inhibit, as any program of the bus sends them, and the message
// with which one login1 passes its locks to the next. A lock has printable texts of whole
// characters, is bounded, and is the same in the next login1.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/text/plain-text.h"
#include "machined/confined/login1/locks/kept-locks.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos::login1;

struct Input {
  const uint8_t* at;
  size_t left;

  uint8_t byte() {
    if (left == 0) return 0;
    --left;
    return *at++;
  }
  kj::String text() {
    size_t size = byte();
    if (size > 250) size *= 2;
    if (size > left) size = left;
    auto result = kj::heapString(reinterpret_cast<const char*>(at), size);
    at += size;
    left -= size;
    return result;
  }
};

void require(bool condition) {
  if (!condition) abort();
}

bool isShown(kj::StringPtr text) {
  return text.size() <= kMostInhibitorText && talos::isPlainText(text);
}

void check(const Inhibitors& locks) {
  kj::Vector<const Inhibitor*> all;
  for (auto& entry : locks) {
    auto& lock = entry.value;
    require(lock.what == "shutdown" && lock.mode == "delay");
    require(isShown(lock.who) && isShown(lock.why));
    all.add(&lock);
  }
  require(all.size() <= kMostInhibitors);
  require(locks.holders().size() == all.size());
  auto message = encodeLocks(all);
  require(message.size() <= kMostKeptBytes);
  auto next = decodeLocks(message, all.size());
  for (auto i : kj::indices(next)) {
    auto& was = *all[i];
    auto& is = next[i];
    require(is.who == was.who && is.why == was.why && is.what == was.what && is.mode == was.mode);
    require(is.uid == was.uid && is.pid == was.pid && is.since == was.since);
  }
}

// False if it was refused.
bool add(Inhibitors& locks, Inhibitor lock) {
  return kj::runCatchingExceptions([&] { locks.add(kj::mv(lock)); }) == nullptr;
}

// The arguments of calls, and locks that are released.
void calls(Input input) {
  Inhibitors locks;
  while (input.left > 0) {
    auto kind = input.byte();
    if (kind % 8 == 0) {
      locks.remove(input.byte());
      continue;
    }
    Inhibitor lock;
    lock.what = kind & 0x40 ? input.text() : kj::str("shutdown");
    lock.mode = kind & 0x20 ? input.text() : kj::str("delay");
    lock.who = input.text();
    lock.why = input.text();
    lock.uid = input.byte();
    lock.pid = input.byte();
    for (unsigned i = kind & 0x80 ? 40 : 1; i > 0; --i) {
      bool added = add(locks, Inhibitor{.what = kj::str(lock.what),
                                        .who = kj::str(lock.who),
                                        .why = kj::str(lock.why),
                                        .mode = kj::str(lock.mode),
                                        .uid = lock.uid,
                                        .pid = lock.pid});
      if (!added) break;  // the same one again is refused again
    }
  }
  check(locks);
}

// A message of the login1 before.
void restored(Input input) {
  size_t count = input.byte();
  kj::runCatchingExceptions([&] {
    auto found = decodeLocks(kj::arrayPtr(input.at, input.left), count);
    require(found.size() == count);
    Inhibitors locks;
    for (auto& lock : found) add(locks, kj::mv(lock));
    check(locks);
  });
}

}  // namespace

FUZZ_TARGET(login1) {
  if (size < 2) return 0;
  Input input{data + 1, size - 1};
  if (data[0] & 1) {
    restored(input);
  } else {
    calls(input);
  }
  return 0;
}
