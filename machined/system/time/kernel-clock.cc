#include "machined/system/time/kernel-clock.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/rtc.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/net/ntp.h"
#include "common/net/udp.h"

namespace talos::machined {
namespace {

constexpr const char* kClockChip = "/dev/rtc0";

void adjust(struct timex& change) {
  KJ_SYSCALL(adjtimex(&change), "setting the clock");
}

// Changes the clock in one call, so that no time is lost between reading and setting it.
void shift(kj::Duration by) {
  auto nanoseconds = by / kj::NANOSECONDS;
  struct timex change = {};
  change.modes = ADJ_SETOFFSET | ADJ_NANO;
  change.time.tv_sec = nanoseconds / 1'000'000'000;
  change.time.tv_usec = nanoseconds % 1'000'000'000;
  if (change.time.tv_usec < 0) {
    change.time.tv_sec -= 1;
    change.time.tv_usec += 1'000'000'000;
  }
  adjust(change);
}

// Returns the error; empty if the chip was written, or does not exist.
kj::String writeClockChip() {
  int raw = open(kClockChip, O_RDONLY | O_CLOEXEC);
  if (raw < 0) {
    if (errno == ENOENT || errno == ENODEV || errno == ENXIO) return kj::String();
    return kj::str(kClockChip, ": ", strerror(errno));
  }
  kj::AutoCloseFd fd(raw);
  time_t now = time(nullptr);
  struct tm utc;
  gmtime_r(&now, &utc);
  struct rtc_time chip = {};
  chip.tm_sec = utc.tm_sec;
  chip.tm_min = utc.tm_min;
  chip.tm_hour = utc.tm_hour;
  chip.tm_mday = utc.tm_mday;
  chip.tm_mon = utc.tm_mon;
  chip.tm_year = utc.tm_year;
  if (ioctl(fd, RTC_SET_TIME, &chip) != 0) return kj::str(kClockChip, ": ", strerror(errno));
  return kj::String();
}

class Conversation final : public TimeConversation {
 public:
  explicit Conversation(kj::Own<UdpSocket> socket) : socket(kj::mv(socket)) {}

  void send(kj::ArrayPtr<const kj::byte> query) override { socket->send(query); }
  kj::Promise<Reply> receive() override {
    return socket->receive().then([](Datagram d) { return Reply{kj::mv(d.bytes), d.received}; });
  }

 private:
  kj::Own<UdpSocket> socket;
};

}  // namespace

KernelClock::KernelClock(UvLoop& uv, kj::Function<void(kj::StringPtr)> log)
    : uv(uv), log(kj::mv(log)) {}

kj::Date KernelClock::now() const {
  return kj::systemPreciseCalendarClock().now();
}

kj::Maybe<kj::Date> KernelClock::raiseTo(kj::Date floor) {
  auto was = now();
  if (was >= floor) return nullptr;
  shift(floor - was);
  return was;
}

void KernelClock::step(kj::Duration by) {
  shift(by);
  slew(0 * kj::SECONDS, 1 * kj::SECONDS, 4);  // and now it is synchronised
  writing = uv.blocking([]() { return writeClockChip(); })
                .then([this](kj::String trouble) {
                  if (trouble.size() > 0) log(kj::str("cannot set the hardware clock: ", trouble));
                })
                .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(ERROR, e); });
}

void KernelClock::slew(kj::Duration by, kj::Duration error, unsigned timeConstant) {
  struct timex change = {};
  change.modes = ADJ_OFFSET | ADJ_NANO | ADJ_STATUS | ADJ_TIMECONST | ADJ_MAXERROR | ADJ_ESTERROR;
  change.offset = by / kj::NANOSECONDS;
  change.status =
      STA_PLL;  // without STA_UNSYNC, so that the kernel also keeps the clock chip right
  change.constant = timeConstant;
  change.maxerror = change.esterror = error / kj::MICROSECONDS;
  adjust(change);
}

kj::Promise<kj::Array<kj::String>> UdpTimeNetwork::resolve(kj::StringPtr name) {
  return foreign.resolve(name);
}

kj::Own<TimeConversation> UdpTimeNetwork::open(kj::StringPtr address) {
  return kj::heap<Conversation>(
      UdpSocket::connected(port, {Ip::require(address).unmapped(), ntp::kPort}));
}

uint64_t randomNonce() {
  uint64_t nonce;
  ssize_t n;
  KJ_SYSCALL(n = getrandom(&nonce, sizeof nonce, 0));
  KJ_ASSERT(n == sizeof nonce);
  return nonce;
}

}  // namespace talos::machined
