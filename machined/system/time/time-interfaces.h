// The parts of the machine that keeping the time needs: its clock and UDP. Interfaces, so that
// tests bring their own.
#pragma once

#include <kj/async.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos::machined {

// The wall clock, and how it is set right.
class SystemClock {
 public:
  virtual ~SystemClock() noexcept(false) = default;
  virtual kj::Date now() const = 0;
  // At once, and the clock chip that lasts while the machine is off.
  virtual void step(kj::Duration by) = 0;
  // Little by little, by the kernel's phase-locked loop, which learns the clock's frequency from
  // it: about 2^(timeConstant + 2) seconds. `error` is what the offset may be wrong by.
  virtual void slew(kj::Duration by, kj::Duration error, unsigned timeConstant) = 0;
};

// One socket of its own for each query, so that what comes late has nowhere to go.
class TimeConversation {
 public:
  virtual ~TimeConversation() noexcept(false) = default;
  struct Reply {
    kj::Array<kj::byte> bytes;
    kj::Date received;
  };
  virtual void send(kj::ArrayPtr<const kj::byte> query) = 0;  // Unavailable, saying why
  virtual kj::Promise<Reply> receive() = 0;                   // from that address only
};

class TimeNetwork {
 public:
  virtual ~TimeNetwork() noexcept(false) = default;
  // Addresses as text, best first, at least one; ends by itself.
  virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr name) = 0;
  // To UDP port 123 of a numeric address; Unavailable when there is no way there.
  virtual kj::Own<TimeConversation> open(kj::StringPtr address) = 0;
};

}  // namespace talos::machined
