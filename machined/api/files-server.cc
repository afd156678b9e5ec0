#include "machined/api/files-server.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/within.h"
#include "machined/api/tar-stream.h"

namespace talos::machined {
namespace {

constexpr size_t kItemsPerPiece = 256;
constexpr size_t kStepsPerPiece = 4096;  // steps of a walk that finds little to report
constexpr size_t kBytesPerPiece = 64u << 10;
// Longer than a thread may take before it counts as hanging (read-pool.h).
constexpr auto kPieceDeadline = 60 * kj::SECONDS;

struct ListOptions {
  kj::String root;
  unsigned maxDepth = 0;
  unsigned types = 0;  // bits of rpc::FileType; 0: all
};

struct ListItem {
  TreeWalk::Visit visit;
  kj::String link;
};

template <typename Item>
struct Piece {
  kj::Vector<Item> items;
  bool last = false;
};

// The jobs below are made and dropped on the loop; their next() runs on the pool, one call at a
// time.
class ListJob : public kj::Refcounted {
 public:
  explicit ListJob(ListOptions options) : options(kj::mv(options)) {}

  Piece<ListItem> next() {
    if (walk == nullptr) walk = kj::heap<TreeWalk>(options.root, options.maxDepth);
    Piece<ListItem> piece;
    for (size_t i = 0; i < kStepsPerPiece && piece.items.size() < kItemsPerPiece; ++i) {
      auto visit = KJ_ASSERT_NONNULL(walk)->next();
      KJ_IF_MAYBE (v, visit) {
        bool known = v->leaving && v->error.size() == 0;
        if (!known && wanted(*v)) piece.items.add(itemOf(kj::mv(*v)));
      } else {
        piece.last = true;
        break;
      }
    }
    return piece;
  }

 private:
  ListOptions options;
  kj::Maybe<kj::Own<TreeWalk>> walk;

  bool wanted(const TreeWalk::Visit& visit) const {
    if (options.types == 0 || visit.error.size() > 0) return true;
    auto has = [&](rpc::FileType type) {
      return (options.types >> static_cast<unsigned>(type)) & 1;
    };
    auto mode = visit.st.st_mode;
    return (S_ISREG(mode) && has(rpc::FileType::REGULAR)) ||
           (S_ISDIR(mode) && has(rpc::FileType::DIRECTORY)) ||
           (S_ISLNK(mode) && has(rpc::FileType::SYMLINK));
  }

  static ListItem itemOf(TreeWalk::Visit visit) {
    kj::String link;
    if (S_ISLNK(visit.st.st_mode)) {
      char target[PATH_MAX];
      ssize_t n = readlink(visit.path.cStr(), target, sizeof target);
      if (n >= 0) {
        link = kj::heapString(target, n);
      } else {
        visit.error = errorText(errno);
      }
    }
    return {kj::mv(visit), kj::mv(link)};
  }
};

class UsageJob : public kj::Refcounted {
 public:
  UsageJob(kj::Vector<kj::String> paths, UsageOptions options)
      : paths(kj::mv(paths)), options(options) {}

  Piece<UsageItem> next() {
    Piece<UsageItem> piece;
    for (size_t i = 0; i < kStepsPerPiece && piece.items.size() < kItemsPerPiece; ++i) {
      if (walk == nullptr && !begin(piece)) {
        piece.last = true;
        break;
      }
      if (walk == nullptr) continue;
      kj::Maybe<UsageItem> item;
      if (!KJ_ASSERT_NONNULL(walk)->step(item)) walk = nullptr;
      KJ_IF_MAYBE (found, item) {
        piece.items.add(kj::mv(*found));
      }
    }
    return piece;
  }

 private:
  kj::Vector<kj::String> paths;
  UsageOptions options;
  size_t at = 0;
  kj::Maybe<kj::Own<UsageWalk>> walk;

  // Opens the next path; a missing path is an item, and the others are still processed.
  bool begin(Piece<UsageItem>& piece) {
    if (at == paths.size()) return false;
    auto& path = paths[at++];
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { walk = kj::heap<UsageWalk>(path, options); })) {
      walk = nullptr;
      auto problem = messageOf(*e), name = kj::str(path, ": ");  // the item names the path already
      if (problem.startsWith(name)) problem = kj::str(problem.slice(name.size()));
      piece.items.add(UsageItem{
          .path = kj::str(path), .relative = kj::str("."), .size = 0, .error = kj::mv(problem)});
    }
    return true;
  }
};

class ReadJob : public kj::Refcounted {
 public:
  explicit ReadJob(kj::String path) : path(kj::mv(path)) {}

  // Returns empty at the end.
  kj::Array<kj::byte> next() {
    if (file == nullptr) open();
    auto chunk = kj::heapArray<kj::byte>(kBytesPerPiece);
    size_t filled = 0;
    // Files in /proc give a page at a time.
    while (filled < chunk.size()) {
      ssize_t n = ::read(KJ_ASSERT_NONNULL(file), chunk.begin() + filled, chunk.size() - filled);
      if (n == 0) break;
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;  // a file that waits for new data: this is all for now
      if (n < 0) fail(ErrorKind::kUnavailable, kj::str(path, ": ", strerror(errno)));
      filled += n;
    }
    return filled == chunk.size() ? kj::mv(chunk) : kj::heapArray(chunk.slice(0, filled));
  }

 private:
  kj::String path;
  kj::Maybe<kj::AutoCloseFd> file;

  void open() {
    int fd = ::open(path.cStr(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      auto kind = errno == ENOENT || errno == ENOTDIR ? ErrorKind::kNotFound
                  : errno == EACCES || errno == EPERM ? ErrorKind::kPermissionDenied
                                                      : ErrorKind::kInvalidArgument;
      fail(kind, kj::str(path, ": ", strerror(errno)));
    }
    kj::AutoCloseFd opened(fd);
    struct stat st;
    KJ_SYSCALL(fstat(opened, &st), path);
    if (!S_ISREG(st.st_mode)) {
      fail(ErrorKind::kInvalidArgument, kj::str(path, ": is not a regular file"));
    }
    file = kj::mv(opened);
  }
};

class CopyJob : public kj::Refcounted {
 public:
  explicit CopyJob(kj::String path) : path(kj::mv(path)) {}

  kj::Maybe<kj::Array<kj::byte>> next() {
    if (archive == nullptr) archive = kj::heap<Archive>(path);
    return KJ_ASSERT_NONNULL(archive)->next();
  }
  kj::Vector<kj::String> takeUnreadable() { return KJ_ASSERT_NONNULL(archive)->takeUnreadable(); }

 private:
  kj::String path;
  kj::Maybe<kj::Own<Archive>> archive;
};

// One next() of a job, on the pool. The job lives as long as the work, even if its caller no longer
// waits.
struct Work {
  ReadPool& pool;
  kj::Timer& timer;
  kj::String doing;
  ClientCalls& calls;
  ClientCalls::Slot slot = calls.enter(CallKind::kRead);
};
template <typename Job>
auto piece(Work& work, Job& job) {
  return within(
      work.timer, kPieceDeadline,
      work.pool.run(
          work.doing, [job = kj::addRef(job)]() mutable { return job->next(); },
          work.calls.number()),
      kj::str(work.doing, " timed out: nothing came for ", kPieceDeadline / kj::SECONDS, " s"));
}

kj::Promise<void> send(rpc::FileSink::Client& sink, kj::ArrayPtr<const ListItem> items) {
  auto request = sink.filesRequest();
  fillList(request.initFiles(items.size()), items, [](auto out, const ListItem& item) {
    auto& visit = item.visit;
    out.setName(visit.path);
    out.setRelativeName(visit.relative);
    out.setSize(visit.st.st_size);
    out.setMode(visit.st.st_mode);
    out.setUid(visit.st.st_uid);
    out.setGid(visit.st.st_gid);
    out.setModified(visit.st.st_mtim.tv_sec);
    out.setError(visit.error);
    out.setLink(item.link);
  });
  return request.send();
}

kj::Promise<void> send(rpc::UsageSink::Client& sink, kj::ArrayPtr<const UsageItem> items) {
  auto request = sink.usagesRequest();
  fillList(request.initUsages(items.size()), items, [](auto out, const UsageItem& item) {
    out.setName(item.path);
    out.setRelativeName(item.relative);
    out.setSize(item.size);
    out.setError(item.error);
  });
  return request.send();
}

kj::Promise<void> send(rpc::ByteSink::Client& sink, kj::ArrayPtr<const kj::byte> bytes) {
  auto request = sink.writeRequest();
  request.setBytes(bytes);
  return request.send();
}

// Runs a job whose pieces have items and a last one.
template <typename Job, typename Sink>
kj::Promise<void> pump(Work work, kj::Own<Job> job, Sink sink) {
  for (;;) {
    auto next = co_await piece(work, *job);
    if (!next.items.empty()) co_await send(sink, next.items);
    if (next.last) co_return;
  }
}

}  // namespace

kj::Promise<void> FilesServer::list(ListContext context) {
  auto params = context.getParams();
  ListOptions options{.root = kj::str(params.getRoot()),
                      .maxDepth = params.getRecurse() ? params.getDepth() : 1};
  for (auto type : params.getTypes()) {
    auto bit = static_cast<unsigned>(type);
    if (bit < 32) options.types |= 1u << bit;  // a newer client may know more types
  }
  auto sink = params.getSink();
  Work work{
      .pool = pool, .timer = timer, .doing = kj::str("listing ", options.root), .calls = *calls};
  return pump(kj::mv(work), kj::refcounted<ListJob>(kj::mv(options)), kj::mv(sink));
}

kj::Promise<void> FilesServer::diskUsage(DiskUsageContext context) {
  auto params = context.getParams();
  Work work{.pool = pool, .timer = timer, .doing = kj::str("measuring"), .calls = *calls};
  if (params.getPaths().size() > kMostUsagePaths) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(params.getPaths().size(), " paths in one call; at most ", kMostUsagePaths));
  }
  kj::Vector<kj::String> paths;
  for (auto path : params.getPaths()) paths.add(kj::str(path));
  if (paths.empty()) paths.add(kj::str("/"));
  UsageOptions options{
      .depth = params.getDepth(), .all = params.getAll(), .threshold = params.getThreshold()};
  auto sink = params.getSink();
  work.doing = kj::str("measuring ", paths[0]);
  return pump(kj::mv(work), kj::refcounted<UsageJob>(kj::mv(paths), options), kj::mv(sink));
}

kj::Promise<void> FilesServer::read(ReadContext context) {
  kj::StringPtr path = context.getParams().getPath();
  Work work{.pool = pool, .timer = timer, .doing = kj::str("reading ", path), .calls = *calls};
  auto job = kj::refcounted<ReadJob>(kj::str(path));
  auto sink = context.getParams().getSink();
  for (;;) {
    auto bytes = co_await piece(work, *job);
    if (bytes.size() == 0) co_return;
    co_await send(sink, bytes);
  }
}

kj::Promise<void> FilesServer::copy(CopyContext context) {
  kj::StringPtr path = context.getParams().getPath();
  Work work{.pool = pool, .timer = timer, .doing = kj::str("copying ", path), .calls = *calls};
  auto job = kj::refcounted<CopyJob>(kj::str(path));
  auto sink = context.getParams().getSink();
  for (;;) {
    auto bytes = co_await piece(work, *job);
    KJ_IF_MAYBE (b, bytes) {
      // A piece may be a little larger than one message may be.
      for (kj::ArrayPtr<const kj::byte> rest = *b; rest.size() > 0;) {
        auto part = rest.slice(0, kj::min(rest.size(), kBytesPerPiece));
        rest = rest.slice(part.size(), rest.size());
        co_await send(sink, part);
      }
    } else {
      break;
    }
  }
  auto unreadable = job->takeUnreadable();
  fillTexts(context.getResults().initUnreadable(unreadable.size()), unreadable);
}

}  // namespace talos::machined
