// The machine's own clock and network, for TimeFollower.
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/time/time-interfaces.h"

namespace talos::machined {

// adjtimex(2) and the clock chip /dev/rtc0, which is written on the thread pool. A machine without
// a chip does not keep the time; `log` gets any other failure.
class KernelClock final : public SystemClock {
 public:
  KernelClock(UvLoop& uv, kj::Function<void(kj::StringPtr)> log);

  kj::Date now() const override;
  void step(kj::Duration by) override;
  void slew(kj::Duration by, kj::Duration error, unsigned timeConstant) override;
  // Sets an earlier clock to `floor`: no server has answered yet, but the time cannot be earlier.
  // The clock stays unsynchronised, and the chip is not changed. Returns the previous time if the
  // clock was set.
  kj::Maybe<kj::Date> raiseTo(kj::Date floor);

 private:
  UvLoop& uv;
  kj::Function<void(kj::StringPtr)> log;
  kj::Promise<void> writing = nullptr;  // writes the clock chip
};

class UdpTimeNetwork final : public TimeNetwork {
 public:
  UdpTimeNetwork(kj::UnixEventPort& port, ForeignBytes& foreign) : port(port), foreign(foreign) {}

  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr name) override;
  kj::Own<TimeConversation> open(kj::StringPtr address) override;

 private:
  kj::UnixEventPort& port;
  ForeignBytes& foreign;
};

// Returns a random number of the kernel.
uint64_t randomNonce();

}  // namespace talos::machined
