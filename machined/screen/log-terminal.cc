#include "machined/screen/log-terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <deque>

#include "common/base/lines.h"
#include "common/base/url-secrets.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kFirstTerminal = "tty1"_kj;
constexpr unsigned kDebugLevel = 7;  // the kernel does not write it to consoles, either

class ActiveTerminal final : public ShownTerminal {
 public:
  ActiveTerminal(kj::UnixEventPort& port, kj::AutoCloseFd opened)
      : fd(kj::mv(opened)), observer(port, fd, kj::UnixEventPort::FdObserver::OBSERVE_URGENT) {}

  kj::String name() override {
    char bytes[32];
    auto size = pread(fd, bytes, sizeof bytes, 0);
    while (size > 0 && bytes[size - 1] == '\n') --size;
    return kj::heapString(bytes, size_t(kj::max(size, ssize_t{0})));
  }
  kj::Promise<void> whenChanged() override { return observer.whenUrgentDataAvailable(); }

 private:
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;
};

// Formats a record as the kernel writes it to a console: "[   12.345678] text".
kj::String formatForConsole(const KmsgRecord& record, kj::Date) {
  if (record.level >= kDebugLevel) return kj::String();
  constexpr uint64_t kMicroseconds = 1'000'000;
  constexpr size_t kWidth = 5;
  auto seconds = kj::str(record.microseconds / kMicroseconds);
  auto fraction = kj::str(record.microseconds % kMicroseconds);
  return kj::str('[', kj::repeat(' ', kWidth - kj::min(kWidth, seconds.size())), seconds, '.',
                 kj::repeat('0', 6 - fraction.size()), fraction, "] ",
                 withoutArgumentSecrets(record.message), '\n');
}

class LastLines final : public rpc::LogSink::Server {
 public:
  LastLines(std::deque<kj::String>& lines, size_t most) : lines(lines), most(most) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    for (auto line : Lines(context.getParams().getBytes().asChars())) {
      lines.push_back(kj::heapString(line));
      if (lines.size() > most) lines.pop_front();
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  std::deque<kj::String>& lines;
  size_t most;
};

}  // namespace

kj::Maybe<kj::Own<ShownTerminal>> shownTerminal(kj::UnixEventPort& port) {
  kj::AutoCloseFd fd(open("/sys/class/tty/tty0/active", O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return nullptr;
  return kj::heap<ActiveTerminal>(port, kj::mv(fd));
}

// A kernel message between the read and the write is overwritten; the next draw shows it.
kj::Promise<void> LogTerminal::draw() {
  std::deque<kj::String> lines;
  co_await readKmsg(openLog(), {.format = formatForConsole},
                    kj::heap<LastLines>(lines, terminal->rows() - 1));
  kj::Vector<char> text;
  for (auto& line : lines) text.addAll(kj::str(line, "\r\n"));
  terminal->show(text.asPtr());
}

kj::Promise<void> LogTerminal::run() {
  auto before = shown->name();
  for (;;) {
    co_await shown->whenChanged();
    auto now = shown->name();
    bool comes = now == kFirstTerminal && before != now;
    before = kj::mv(now);
    if (comes) co_await draw();
  }
}

}  // namespace talos::machined
