#include "networkd/host.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <optional>

#include "common/file.h"
#include "common/log.h"

namespace talos::networkd {

namespace {

class MachineHost final : public Host {
 public:
  MachineHost(kj::UnixEventPort& port, kj::StringPtr directory)
      : resolverPath(kj::str(directory, "/resolv.conf")) {
    // The kernel marks this file urgent when the name is set. Where it cannot be read, the name is
    // looked at only when something else happens.
    int raw = ::open("/proc/sys/kernel/hostname", O_RDONLY | O_CLOEXEC);
    if (raw < 0) {
      log::warn("changes of the host name are not noticed at once", {{"error", strerror(errno)}});
      return;
    }
    fd = kj::AutoCloseFd(raw);
    observer.emplace(port, raw, kj::UnixEventPort::FdObserver::OBSERVE_URGENT);
  }

  kj::String hostname() override {
    utsname names;
    KJ_SYSCALL(uname(&names));
    return kj::str(names.nodename);
  }

  kj::Promise<void> hostnameChanged() override {
    if (!observer) return kj::NEVER_DONE;
    auto promise = observer->whenUrgentDataAvailable();
    // The change that was told last counts as seen only once the file is read.
    char text[256];
    if (::pread(fd, text, sizeof(text), 0) < 0) return kj::NEVER_DONE;
    return promise;
  }

  bool ipv6() override {
    int probe = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return errno != EAFNOSUPPORT;
    ::close(probe);
    return true;
  }

  void writeResolverFile(kj::StringPtr content) override {
    KJ_IF_MAYBE (there, tryReadFile(resolverPath)) {
      if (*there == content) return;
    }
    writeFileAtomically(resolverPath, content, 0644);
  }

 private:
  kj::String resolverPath;
  kj::AutoCloseFd fd;
  std::optional<kj::UnixEventPort::FdObserver> observer;
};

}  // namespace

kj::Own<Host> openHost(kj::UnixEventPort& port, kj::StringPtr directory) {
  return kj::heap<MachineHost>(port, directory);
}

void Signal::set() {
  raised = true;
  KJ_IF_MAYBE (fulfiller, waiter) (*fulfiller)->fulfill();
}

kj::Promise<void> Signal::wait() {
  if (!raised) {
    auto paf = kj::newPromiseAndFulfiller<void>();
    waiter = kj::mv(paf.fulfiller);
    co_await paf.promise;
  }
  raised = false;
}

}  // namespace talos::networkd
