#include "machined/disk/devices/device-events.h"

#include <errno.h>
#include <kj/string.h>
#include <sys/socket.h>

namespace talos::machined {
namespace {

constexpr unsigned kKernelGroup = 1;  // 2 is udev's

kj::AutoCloseFd openSocket() {
  int fd = ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
  if (fd < 0) return nullptr;
  kj::AutoCloseFd owned(fd);
  struct sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  if (bind(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) != 0) return nullptr;
  return owned;
}

}  // namespace

bool concernsDisks(kj::ArrayPtr<const char> uevent) {
  while (uevent.size() > 0) {
    size_t end = 0;
    while (end < uevent.size() && uevent[end] != 0) ++end;
    auto field = uevent.slice(0, end);
    if (field == "SUBSYSTEM=block"_kj.asArray() || field == "SUBSYSTEM=scsi"_kj.asArray()) {
      return true;
    }
    uevent = uevent.slice(kj::min(end + 1, uevent.size()), uevent.size());
  }
  return false;
}

bool isFromKernel(const struct sockaddr_nl& sender) {
  return sender.nl_family == AF_NETLINK && sender.nl_pid == 0;
}

UeventSocket::UeventSocket(kj::UnixEventPort& port) : socket(openSocket()) {
  if (socket == nullptr) return;
  observer = kj::heap<kj::UnixEventPort::FdObserver>(port, socket.get(),
                                                     kj::UnixEventPort::FdObserver::OBSERVE_READ);
}

kj::Promise<void> UeventSocket::whenReadable() {
  if (socket == nullptr) return kj::NEVER_DONE;
  return observer->whenBecomesReadable();
}

bool UeventSocket::drain(kj::FunctionParam<void(kj::ArrayPtr<const char>)> each) {
  if (socket == nullptr) return true;
  bool complete = true;
  for (;;) {
    char message[8192];
    struct sockaddr_nl sender = {};
    socklen_t length = sizeof(sender);
    ssize_t size = recvfrom(socket, message, sizeof(message), 0,
                            reinterpret_cast<struct sockaddr*>(&sender), &length);
    if (size > 0 && !isFromKernel(sender)) continue;
    if (size > 0) {
      each(kj::arrayPtr(message, static_cast<size_t>(size)));
    } else if (size < 0 && errno == ENOBUFS) {
      complete = false;
    } else if (size < 0 && errno != EINTR) {
      return complete;
    }
  }
}

kj::Promise<void> DeviceEvents::next() {
  for (;;) {
    auto readable = events.whenReadable();
    bool any = false;
    bool complete =
        events.drain([&](kj::ArrayPtr<const char> event) { any = any || concernsDisks(event); });
    if (any || !complete) co_return;  // a lost event may have been one
    co_await readable;
  }
}

namespace {

constexpr auto kLookAgain = 100 * kj::MILLISECONDS;

}  // namespace

kj::Promise<bool> awaitDisk(kj::Timer& timer, kj::String what,
                            kj::Function<kj::Promise<bool>()> isThere,
                            kj::Function<void(kj::StringPtr line)>& report) {
  auto deadline = timer.now() + kDiskWait;
  bool reported = false;
  while (!co_await isThere()) {
    if (timer.now() >= deadline) co_return false;
    if (!reported) report(kj::str("waiting for ", what));
    reported = true;
    co_await timer.afterDelay(kLookAgain);
  }
  co_return true;
}

}  // namespace talos::machined
