// The machine's own clock and network, for TimeFollower.
#pragma once

#include <kj/async-unix.h>
#include <kj/function.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/time/time-interfaces.h"

namespace talos::machined {

// adjtimex(2) and the clock chip /dev/rtc0, which is written on the thread pool; a machine without
// one has nothing to remember the time with, and `log` gets any other failure.
class KernelClock final : public SystemClock {
 public:
  KernelClock(UvLoop& uv, kj::Function<void(kj::StringPtr)> log);

  kj::Date now() const override;
  void step(kj::Duration by) override;
  void slew(kj::Duration by, kj::Duration error, unsigned timeConstant) override;
  // Sets a clock that is behind `floor` to it: no server was asked yet, but it cannot be earlier
  // than that. The clock counts as not synchronised as before, and the chip is left alone. Returns
  // what it was, if it was set.
  kj::Maybe<kj::Date> raiseTo(kj::Date floor);

 private:
  UvLoop& uv;
  kj::Function<void(kj::StringPtr)> log;
  kj::Promise<void> writing = nullptr;  // the clock chip
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

// From the kernel's random numbers.
uint64_t randomNonce();

}  // namespace talos::machined
