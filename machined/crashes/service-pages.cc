#include "machined/crashes/service-pages.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/crash/crash-handler.h"
#include "common/crash/service-page.h"

namespace talos::machined {
namespace {

using crash::ServicePage;
constexpr kj::StringPtr kPrefix = "page/"_kj;

kj::AutoCloseFd newPage(kj::StringPtr service) {
  int made;
  KJ_SYSCALL(made = memfd_create("service-page", MFD_CLOEXEC | MFD_ALLOW_SEALING), service);
  kj::AutoCloseFd fd(made);
  KJ_SYSCALL(ftruncate(fd, crash::kServicePageSize), service);
  KJ_SYSCALL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), service);
  return fd;
}

bool isPage(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && info.st_size == static_cast<off_t>(crash::kServicePageSize);
}

template <typename T>
T readField(int page, size_t offset) {
  T value{};
  readAt(page, offset, kj::arrayPtr(&value, 1).asBytes(), "the page of a service");
  return value;
}

template <typename T>
void writeField(int page, size_t offset, T value) {
  ssize_t n;
  KJ_SYSCALL(n = pwrite(page, &value, sizeof value, static_cast<off_t>(offset)));
  KJ_ASSERT(n == sizeof value, n);
}

}  // namespace

ServicePages::ServicePages(Process1& process1) : process1(process1) {
  for (auto& name : process1.heldNames()) {
    if (!name.startsWith(kPrefix)) continue;
    KJ_IF_MAYBE (fd, process1.takeHeld(name)) {
      if (isPage(*fd)) pages.insert(kj::str(name.slice(kPrefix.size())), kj::mv(*fd));
    }
  }
}

kj::Promise<int> ServicePages::open(kj::StringPtr service) {
  KJ_IF_MAYBE (page, pages.find(service)) co_return page->get();
  int fd = pages.insert(kj::str(service), newPage(service)).value.get();
  co_await process1.hold(kj::str(kPrefix, service), fd);
  co_return fd;
}

kj::Maybe<crash::CrashRecord> ServicePages::recordIn(int page) {
  size_t size = readField<uint32_t>(page, offsetof(ServicePage, size));
  if (size == 0) return nullptr;
  auto text = kj::heapArray<kj::byte>(kj::min(size, crash::kMostRecord));
  readAt(page, offsetof(ServicePage, record), text, "the page of a service");
  return crash::parseCrashRecord(text.asChars());
}

void ServicePages::removeRecord(int page) {
  writeField<uint32_t>(page, offsetof(ServicePage, size), 0);
}

// Takes the core, and frees its memory in the page.
kj::Array<kj::byte> ServicePages::takeCore(int page) {
  size_t size = readField<uint32_t>(page, offsetof(ServicePage, coreSize));
  if (size == 0) return nullptr;
  auto core = kj::heapArray<kj::byte>(kj::min(size, crash::kMostCore));
  readAt(page, offsetof(ServicePage, core), core, "the page of a service");
  writeField<uint32_t>(page, offsetof(ServicePage, coreSize), 0);
  KJ_SYSCALL(fallocate(page, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       offsetof(ServicePage, core), crash::kMostCore));
  return core;
}

kj::Maybe<crash::CrashRecord> ServicePages::takeRecord(kj::StringPtr service) {
  KJ_IF_MAYBE (page, pages.find(service)) {
    auto record = recordIn(*page);
    auto core = takeCore(*page);
    removeRecord(*page);
    KJ_IF_MAYBE (r, record) {
      if (r->signal == crash::kShowStack) return nullptr;
      r->core = kj::mv(core);
      return kj::mv(*r);
    }
  }
  return nullptr;
}

kj::Maybe<crash::CrashRecord> ServicePages::takeStack(kj::StringPtr service) {
  KJ_IF_MAYBE (page, pages.find(service)) {
    auto record = recordIn(*page);
    KJ_IF_MAYBE (r, record) {
      if (r->signal != crash::kShowStack || !r->whole) return nullptr;
      removeRecord(*page);
      return kj::mv(*r);
    }
  }
  return nullptr;
}

log::Level ServicePages::level(kj::StringPtr service) const {
  KJ_IF_MAYBE (page, pages.find(service)) {
    auto stored = readField<uint8_t>(*page, offsetof(ServicePage, level));
    for (auto level : {log::Level::kDebug, log::Level::kWarning, log::Level::kError}) {
      if (stored == crash::storedLevel(level)) return level;
    }
  }
  return log::Level::kInfo;
}

void ServicePages::setLevel(kj::StringPtr service, log::Level level) {
  writeField<uint8_t>(requirePage(service, "log level to set"), offsetof(ServicePage, level),
                      crash::storedLevel(level));
}

bool ServicePages::keepsCores(kj::StringPtr service) const {
  KJ_IF_MAYBE (page, pages.find(service)) {
    return readField<uint8_t>(*page, offsetof(ServicePage, keepsCores)) == 1;
  }
  return false;
}

void ServicePages::setKeepsCores(kj::StringPtr service, bool keep) {
  writeField<uint8_t>(requirePage(service, "cores to keep"), offsetof(ServicePage, keepsCores),
                      keep ? 1 : 0);
}

int ServicePages::requirePage(kj::StringPtr service, kj::StringPtr lacks) const {
  KJ_IF_MAYBE (page, pages.find(service)) return page->get();
  fail(ErrorKind::kFailedPrecondition,
       kj::str("service \"", service, "\" has no ", lacks,
               ": it is not a program of this system, or does not run here"));
}

}  // namespace talos::machined
