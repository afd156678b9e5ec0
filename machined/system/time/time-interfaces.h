// The parts of the machine that timekeeping needs: its clock and UDP. Interfaces, so that tests can
// replace them.
#pragma once

#include <kj/async.h>
#include <kj/string.h>
#include <kj/time.h>

namespace talos::machined {

// The wall clock and its corrections.
class SystemClock {
 public:
  virtual ~SystemClock() noexcept(false) = default;
  virtual kj::Date now() const = 0;
  // Changes the clock immediately, and the clock chip that runs while the machine is off.
  virtual void step(kj::Duration by) = 0;
  // Changes the clock gradually, by the kernel's phase-locked loop, which learns the clock's
  // frequency from it: about 2^(timeConstant + 2) seconds. `error` is the uncertainty of the
  // offset.
  virtual void slew(kj::Duration by, kj::Duration error, unsigned timeConstant) = 0;
};

// A separate socket for each query, so that late replies are dropped.
class TimeConversation {
 public:
  virtual ~TimeConversation() noexcept(false) = default;
  struct Reply {
    kj::Array<kj::byte> bytes;
    kj::Date received;
  };
  virtual void send(kj::ArrayPtr<const kj::byte> query) = 0;  // Unavailable with the error
  virtual kj::Promise<Reply> receive() = 0;                   // from this address only
};

class TimeNetwork {
 public:
  virtual ~TimeNetwork() noexcept(false) = default;
  // Returns addresses as text, best first, at least one; has its own time limit.
  virtual kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr name) = 0;
  // Opens UDP to port 123 of a numeric address; Unavailable if there is no route.
  virtual kj::Own<TimeConversation> open(kj::StringPtr address) = 0;
};

}  // namespace talos::machined
