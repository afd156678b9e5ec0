#include "machined/history/issued-records.h"

#include <capnp/serialize.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/history/frames.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

using Spec = rpc::IssuedCertificateSpec;

constexpr auto kGather = 100 * kj::MILLISECONDS;  // many workers join at once
constexpr auto kAgain = 5 * kj::SECONDS;
constexpr size_t kNotWorthIt = 64u << 10;
// The meaning of a frame's position.
constexpr uint64_t kGone = 0, kCame = 1;

kj::Array<kj::byte> frameOfRecord(rpc::Resource::Reader record) {
  capnp::MallocMessageBuilder message(record.totalSize().wordCount + 8);
  message.setRoot(record);
  auto words = capnp::messageToFlatArray(message);
  return frameOf(kCame, words.asPtr().asBytes().asChars());
}

// Calls `use` with what is a record of an issued certificate.
void readRecord(kj::ArrayPtr<const char> bytes,
                kj::FunctionParam<void(rpc::Resource::Reader record)> use) {
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  if (words.size() == 0) return;
  memcpy(words.begin(), bytes.begin(), words.asPtr().asBytes().size());
  kj::runCatchingExceptions([&]() {
    capnp::FlatArrayMessageReader reader(words);
    auto record = reader.getRoot<rpc::Resource>();
    if (record.getMetadata().getType() == typeName<Spec>()) use(record);
  });
}

struct Kept {
  kj::TreeMap<kj::String, kj::Array<char>> records;
  size_t bytes = 0;
};

Kept readKept(kj::StringPtr file) {
  Kept kept;
  KJ_IF_MAYBE (content, tryReadFile(file, kMostIssuedBytes)) {
    kept.bytes = readFrames(content->asBytes(), [&](Piece piece) {
      if (piece.position == kGone) {
        kept.records.erase(kj::heapString(piece.bytes));
        return;
      }
      readRecord(piece.bytes, [&](rpc::Resource::Reader record) {
        kept.records.upsert(kj::str(record.getMetadata().getId()), kj::heapArray(piece.bytes),
                            [](auto& old, auto&& now) { old = kj::mv(now); });
      });
    });
    // A power cut's half frame would hide the next one.
    if (kept.bytes < content->size()) {
      KJ_SYSCALL(truncate(file.cStr(), static_cast<off_t>(kept.bytes)), file);
    }
  }
  return kept;
}

void appendTo(kj::StringPtr file, kj::ArrayPtr<const kj::byte> frames) {
  int fd;
  KJ_SYSCALL(fd = open(file.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600),
             file);
  kj::AutoCloseFd owned(fd);
  struct stat before;
  KJ_SYSCALL(fstat(fd, &before), file);
  // All or nothing: half a frame would hide those that follow.
  KJ_ON_SCOPE_FAILURE((void)!ftruncate(fd, before.st_size));
  kj::FdOutputStream(fd).write(frames.begin(), frames.size());
  KJ_SYSCALL(fsync(fd), file);
}

}  // namespace

IssuedRecords::IssuedRecords(UvLoop& uv, kj::Timer& timer, Store& store,
                             kj::Function<void(kj::StringPtr)> say, kj::StringPtr file)
    : uv(uv), timer(timer), store(store), say(kj::mv(say)), file(kj::str(file)) {}

kj::Promise<void> IssuedRecords::begin() {
  auto found = co_await uv.blocking([file = kj::str(file)]() { return readKept(file); });
  fileBytes = found.bytes;
  for (auto& entry : found.records) {
    liveBytes += entry.value.size() + kFrameHead;
    kept.insert(kj::str(entry.key));
    if (store.tryGet<Spec>(entry.key) != nullptr) continue;  // a new brain
    readRecord(entry.value, [&](rpc::Resource::Reader record) {
      capnp::MallocMessageBuilder message(record.totalSize().wordCount + 8);
      message.setRoot(record);
      auto fresh = message.getRoot<rpc::Resource>();
      fresh.getMetadata().setVersion(0);
      store.put(fresh.asReader());
    });
  }
  subscription = store.onChange<Spec>([this]() { changed.raise(); });
  keeping = keepOn().eagerlyEvaluate(nullptr);
}

kj::Promise<void> IssuedRecords::keepOn() {
  for (;;) {
    auto next = changed.next();
    kj::Maybe<kj::Exception> failure;
    co_await write().catch_([&failure](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      auto line = kj::str(
          "warning: cannot keep the records of issued certificates: ", messageOf(*e), "; retrying");
      if (line != told) say(line);
      told = kj::mv(line);
      co_await timer.afterDelay(kAgain);
      continue;
    }
    told = kj::String();
    co_await next;
    co_await timer.afterDelay(kGather);
  }
}

kj::Promise<void> IssuedRecords::write() {
  kj::TreeSet<kj::String> now;
  kj::Vector<kj::byte> frames;
  size_t live = 0;
  for (auto record : store.list("", typeName<Spec>())) {
    kj::StringPtr id = record.getMetadata().getId();
    now.insert(kj::str(id));
    live += record.totalSize().wordCount * sizeof(capnp::word) + kFrameHead;
    if (kept.find(id) == nullptr) frames.addAll(frameOfRecord(record));
  }
  for (auto& id : kept) {
    if (now.find(id) == nullptr) frames.addAll(frameOf(kGone, id.asArray()));
  }
  liveBytes = live;
  if (!frames.empty()) {
    auto size = frames.size();
    co_await uv.blocking(
        [file = kj::str(file), frames = frames.releaseAsArray()]() { appendTo(file, frames); });
    fileBytes += size;
    kept = kj::mv(now);
  }
  if (fileBytes > kNotWorthIt && fileBytes > 2 * liveBytes) co_await rewrite();
}

kj::Promise<void> IssuedRecords::rewrite() {
  kj::Vector<char> frames;
  for (auto record : store.list("", typeName<Spec>())) {
    if (kept.find(kj::StringPtr(record.getMetadata().getId())) == nullptr) continue;
    frames.addAll(frameOfRecord(record).asChars());
  }
  auto size = frames.size();
  co_await uv.blocking([file = kj::str(file), frames = frames.releaseAsArray()]() {
    writeFileAtomically(file, frames, 0600);
  });
  fileBytes = size;
}

kj::Promise<void> IssuedRecords::end() {
  subscription = kj::Own<void>();
  keeping = kj::READY_NOW;
  return write();
}

}  // namespace talos::machined
