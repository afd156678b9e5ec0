#include "machined/logs/history/issued-certificate-log.h"

#include <capnp/serialize.h>
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/append-only-frames.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

using Spec = rpc::IssuedCertificateSpec;

constexpr auto kGather = 100 * kj::MILLISECONDS;  // because many workers join at once
constexpr auto kAgain = 5 * kj::SECONDS;
constexpr size_t kNotWorthIt = 64u << 10;
// The meaning of a frame's position.
constexpr uint64_t kGone = 0, kCame = 1;

// Returns nullptr if the record is larger than any that trustd makes.
kj::Maybe<kj::Array<kj::byte>> frameOfRecord(rpc::Resource::Reader record) {
  capnp::MallocMessageBuilder message(record.totalSize().wordCount + 8);
  message.setRoot(record);
  auto words = capnp::messageToFlatArray(message);
  if (words.asBytes().size() > kMostPiece) return nullptr;
  return frameOf(kCame, words.asPtr().asBytes().asChars());
}

// Calls `use` if the bytes are a record of an issued certificate.
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
      if (piece.position != kCame) return;  // a frame of a later release
      readRecord(piece.bytes, [&](rpc::Resource::Reader record) {
        kept.records.upsert(kj::str(record.getMetadata().getId()), kj::heapArray(piece.bytes),
                            [](auto& old, auto&& now) { old = kj::mv(now); });
      });
    });
    // Half a frame from a power cut would hide the next frame.
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
  // All or nothing: half a frame would hide the following frames.
  KJ_ON_SCOPE_FAILURE((void)!ftruncate(fd, before.st_size));
  kj::FdOutputStream(fd).write(frames.begin(), frames.size());
  KJ_SYSCALL(fsync(fd), file);
}

}  // namespace

IssuedRecords::IssuedRecords(UvLoop& uv, kj::Timer& timer, Store& store,
                             kj::Function<void(kj::StringPtr)> say, kj::StringPtr file)
    : uv(uv), timer(timer), store(store), say(kj::mv(say)), file(kj::str(file)) {}

kj::Promise<void> IssuedRecords::begin() {
  auto tried = kj::newPromiseAndFulfiller<void>();
  auto end = kj::newPromiseAndFulfiller<void>();
  stop = kj::mv(end.fulfiller);
  stopped = end.promise.fork();
  keeping = runUntilEnded(kj::mv(tried.fulfiller)).eagerlyEvaluate(nullptr);
  return kj::mv(tried.promise);
}

kj::Promise<void> IssuedRecords::load() {
  auto found = co_await uv.blocking([file = kj::str(file)]() { return readKept(file); });
  fileBytes = found.bytes;
  kept.clear();  // entries of an attempt that failed half-way
  for (auto& entry : found.records) {
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
  loaded = true;
}

kj::Promise<void> IssuedRecords::runUntilEnded(kj::Own<kj::PromiseFulfiller<void>> tried) {
  for (;;) {
    bool last = ending;
    auto next = changed.next();
    kj::Maybe<kj::Exception> failure;
    try {
      if (!loaded) co_await load();
      co_await write();
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    auto line = failure
                    .map([](kj::Exception& e) {
                      return kj::str("warning: cannot keep the records of issued certificates: ",
                                     messageOf(e), "; retrying");
                    })
                    .orDefault(kj::String());
    if (line.size() > 0 && line != lastReported) say(line);
    lastReported = kj::mv(line);
    tried->fulfill();
    if (last) co_return;
    auto pause = failure == nullptr ? next.then([this]() { return timer.afterDelay(kGather); })
                                    : timer.afterDelay(kAgain);
    co_await pause.exclusiveJoin(stopped.addBranch());
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
    if (kept.find(id) != nullptr) continue;
    KJ_IF_MAYBE (frame, frameOfRecord(record)) {
      frames.addAll(*frame);
    } else {
      say(kj::str("warning: the record ", id, " of an issued certificate is too large to be kept"));
    }
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
  }
  kept = kj::mv(now);
  if (fileBytes > kNotWorthIt && fileBytes > 2 * liveBytes) co_await rewrite();
}

kj::Promise<void> IssuedRecords::rewrite() {
  kj::Vector<char> frames;
  for (auto record : store.list("", typeName<Spec>())) {
    if (kept.find(kj::StringPtr(record.getMetadata().getId())) == nullptr) continue;
    KJ_IF_MAYBE (frame, frameOfRecord(record)) frames.addAll(frame->asChars());
  }
  auto size = frames.size();
  co_await uv.blocking([file = kj::str(file), frames = frames.releaseAsArray()]() {
    writeFileAtomically(file, frames, 0600);
  });
  fileBytes = size;
}

kj::Promise<void> IssuedRecords::end() {
  ending = true;
  stop->fulfill();
  co_await kj::mv(keeping);
}

}  // namespace talos::machined
