#include "backupd/backup-server.h"

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::backupd {
namespace {

constexpr auto kConfigDeadline = 10 * kj::SECONDS;
constexpr size_t kMostListBytes = 7u << 20;  // below the 8 MiB of a message

kj::Promise<kj::Array<kj::byte>> readPiece(rpc::ByteSource::Client content, uint64_t at,
                                           size_t most) {
  auto request = content.readRequest();
  request.setOffset(at);
  request.setSize(static_cast<uint32_t>(most));
  auto answer = co_await request.send();
  auto bytes = answer.getBytes();
  if (bytes.size() > most) fail(ErrorKind::kInvalidArgument, "more bytes than were asked for");
  co_return kj::heapArray<kj::byte>(bytes);
}

}  // namespace

kj::String nameOf(const S3Settings& settings) {
  return kj::str(settings.endpoint, "/", settings.bucket);
}

kj::Maybe<kj::Own<S3Store>> BackupServer::tryOpen(kj::StringPtr store) {
  KJ_IF_MAYBE (settings, deps.settings()) {
    if (nameOf(*settings) == store) return deps.open(kj::mv(*settings));
  }
  return nullptr;
}

kj::Promise<kj::Own<S3Store>> BackupServer::open(kj::StringPtr store) {
  auto deadline = deps.timer.now() + kConfigDeadline;
  for (;;) {
    auto changed = deps.changed.next();
    KJ_IF_MAYBE (found, tryOpen(store)) co_return kj::mv(*found);
    if (deps.timer.now() >= deadline) {
      fail(ErrorKind::kUnavailable, kj::str("backupd does not know the store ", store, " yet"));
    }
    co_await changed.exclusiveJoin(deps.timer.atTime(deadline));
  }
}

kj::Promise<void> BackupServer::list(ListContext context) {
  auto params = context.getParams();
  auto store = co_await open(params.getStore());
  auto names = co_await store->list(params.getPrefix());
  size_t bytes = 0;
  for (auto& name : names) bytes += name.size() + 2 * sizeof(capnp::word);
  if (bytes > kMostListBytes) {
    fail(ErrorKind::kUnavailable, kj::str("the names of ", names.size(),
                                          " objects below the prefix are too long; use a prefix "
                                          "of its own"));
  }
  auto out = context.getResults().initNames(static_cast<unsigned>(names.size()));
  for (auto i : kj::indices(names)) out.set(static_cast<unsigned>(i), names[i]);
}

kj::Promise<void> BackupServer::put(PutContext context) {
  auto params = context.getParams();
  auto store = co_await open(params.getStore());
  S3Upload upload{params.getSize(), kj::str(params.getSha256()),
                  [content = params.getContent()](uint64_t at, size_t most) mutable {
                    return readPiece(content, at, most);
                  }};
  co_await store->put(params.getName(), upload);
}

kj::Promise<void> BackupServer::remove(RemoveContext context) {
  auto params = context.getParams();
  auto store = co_await open(params.getStore());
  co_await store->remove(params.getName());
}

}  // namespace talos::backupd
