#include "machined/resources/store-journal-file.h"

#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {
constexpr kj::StringPtr kName = "store"_kj;
}  // namespace

void JournalFile::File::cut(size_t to) {
  KJ_SYSCALL(ftruncate(fd, to));
  size = to;
}

void JournalFile::File::append(kj::ArrayPtr<const kj::byte> bytes) {
  if (size + bytes.size() > kLargestJournal) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the journal of resources has ", size, " bytes and must not exceed ",
                 kLargestJournal, "; retry when it has been compacted"));
  }
  for (size_t done = 0; done < bytes.size();) {
    auto n = pwrite(fd, bytes.begin() + done, bytes.size() - done, size + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      auto reason = kj::str(n == 0 ? "nothing was written" : strerror(errno));
      cut(size);
      fail(ErrorKind::kResourceExhausted,
           kj::str("cannot write ", bytes.size(), " bytes to the journal of resources: ", reason));
    }
    done += n;
  }
  size += bytes.size();
}

JournalFile::JournalFile(Process1& process1) : process1(process1) {}

kj::Maybe<JournalFile::Found> JournalFile::read() {
  KJ_IF_MAYBE (fd, process1.takeHeld(kName)) {
    Found found;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { found.words = readWhole(*fd); })) {
      found.damage = messageOf(*e);
    } else {
      current.fd = kj::mv(*fd);
    }
    return kj::mv(found);
  }
  return nullptr;
}

kj::Array<capnp::word> JournalFile::readWhole(int fd) {
  struct stat stats;
  KJ_SYSCALL(fstat(fd, &stats));
  if (!S_ISREG(stats.st_mode)) fail(ErrorKind::kInternal, "it is not a file");
  if (stats.st_size > kLargestJournal) {
    fail(ErrorKind::kInternal, kj::str("it has ", stats.st_size, " bytes; ", kLargestJournal,
                                       " is the most that machined writes"));
  }
  // Records are multiples of 8 bytes: a partial word at the end is useless.
  auto words = kj::heapArray<capnp::word>(stats.st_size / sizeof(capnp::word));
  auto bytes = words.asBytes();
  for (size_t done = 0; done < bytes.size();) {
    ssize_t n;
    KJ_SYSCALL(n = pread(fd, bytes.begin() + done, bytes.size() - done, done));
    if (n <= 0) fail(ErrorKind::kInternal, "it was truncated while being read");
    done += n;
  }
  return words;
}

void JournalFile::resume(size_t valid) {
  current.cut(valid);
}

void JournalFile::append(kj::ArrayPtr<const kj::byte> record) {
  auto before = current.size;
  bool begun = current.fd.get() >= 0;  // until the first file is held, only `next` exists
  KJ_REQUIRE(begun || next != nullptr, "process 1 refused the journal of resources");
  if (begun) current.append(record);
  KJ_IF_MAYBE (n, next) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { n->append(record); })) {
      if (begun) current.cut(before);
      kj::throwFatalException(kj::mv(*e));
    }
  }
}

kj::Promise<void> JournalFile::replace(kj::ArrayPtr<const kj::byte> content) {
  KJ_REQUIRE(next == nullptr, "the journal is being replaced already");
  int raw;
  KJ_SYSCALL(raw = memfd_create("store", MFD_CLOEXEC));
  File file{kj::AutoCloseFd(raw)};
  file.append(content);
  auto held = process1.hold(kName, file.fd);
  next = kj::mv(file);
  return held.then(
      [this] {
        current = kj::mv(KJ_ASSERT_NONNULL(next));
        next = nullptr;
      },
      [this](kj::Exception&& e) {
        next = nullptr;
        kj::throwFatalException(kj::mv(e));
      });
}

}  // namespace talos::machined
