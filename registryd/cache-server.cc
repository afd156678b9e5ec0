#include "registryd/cache-server.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/compat/http.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/within.h"
#include "common/image-cache/cache-layout.h"
#include "common/net/http-header-names.h"
#include "registryd/cache-request.h"

namespace talos::registryd {
namespace {

constexpr size_t kPiece = 128u << 10;
// A client that takes no piece for this time is gone: it would keep its place for ever.
constexpr auto kTakes = 60 * kj::SECONDS;

struct CacheHeaders : public HttpHeaderNames {
  kj::HttpHeaderId range = add("Range"), contentRange = add("Content-Range"),
                   acceptRanges = add("Accept-Ranges"), digest = add("Docker-Content-Digest"),
                   version = add("Docker-Distribution-Api-Version");
};

struct CachedFile {
  kj::AutoCloseFd fd;
  uint64_t size;
  kj::String path;
};

kj::Maybe<CachedFile> openIn(kj::StringPtr root, kj::StringPtr below) {
  auto path = kj::str(root, "/", below);
  int fd = open(path.cStr(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)  // no file has the name
      log::warn("cannot open a file of the cache", {{"path", path}, {"error", strerror(errno)}});
    return nullptr;
  }
  kj::AutoCloseFd owned(fd);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return nullptr;
  return CachedFile{kj::mv(owned), static_cast<uint64_t>(info.st_size), kj::mv(path)};
}

class CacheService final : public kj::HttpService {
 public:
  CacheService(kj::Timer& timer, const CacheHeaders& names, kj::ArrayPtr<const kj::StringPtr> roots)
      : timer(timer), names(names), roots(roots) {}

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& asked,
                            kj::AsyncInputStream&, Response& response) override {
    log::debug("request received", {{"method", kj::str(method)}, {"path", url}});
    bool withBody = method == kj::HttpMethod::GET;
    if (!withBody && method != kj::HttpMethod::HEAD)
      return response.sendError(405, "Method Not Allowed", names.table());
    KJ_IF_MAYBE (request, readRequest(url)) {
      using Kind = CacheRequest::Kind;
      if (request->kind == Kind::kHealth || request->kind == Kind::kBase)
        return sendNothing(response);
      for (auto root : roots) {
        KJ_IF_MAYBE (file, openIn(root, request->path)) {
          return request->kind == Kind::kManifest
                     ? sendManifest(kj::mv(*file), withBody, response)
                     : sendBlob(kj::mv(*file), withBody, asked.get(names.range), response);
        }
      }
    }
    return response.sendError(404, "Not Found", names.table());
  }

 private:
  kj::Timer& timer;
  const CacheHeaders& names;
  kj::ArrayPtr<const kj::StringPtr> roots;

  kj::HttpHeaders answer(kj::StringPtr type) const {
    kj::HttpHeaders headers(names.table());
    headers.set(names.version, "registry/2.0");
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, type);
    return headers;
  }

  kj::Promise<void> sendNothing(Response& response) {
    auto headers = answer("text/plain");
    auto body = response.send(200, "OK", headers, uint64_t(0));
    co_return;
  }

  // A manifest that cannot be read, or is not valid, counts as missing.
  kj::Promise<void> sendManifest(CachedFile file, bool withBody, Response& response) {
    kj::StringPtr type;
    Sha256 sum;
    auto failure = kj::runCatchingExceptions([&]() {
      if (file.size > imagecache::kMostManifest)
        fail(ErrorKind::kInvalidArgument, "it is larger than a manifest may be");
      auto content = kj::heapArray<char>(file.size);
      if (readAt(file.fd, 0, content.asBytes(), file.path) < content.size())
        fail(ErrorKind::kUnavailable, "it became shorter");
      type = mediaTypeOf(content);
      sum.add(content.asBytes());
    });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot use a manifest of the cache",
                {{"path", file.path}, {"error", messageOf(*e)}});
      co_return co_await response.sendError(404, "Not Found", names.table());
    }
    auto headers = answer(type);
    headers.set(names.digest, kj::str("sha256:", sum.hex()));
    auto body = response.send(200, "OK", headers, file.size);
    if (withBody) co_await sendPart(file, {0, file.size}, *body);
  }

  kj::Promise<void> sendBlob(CachedFile file, bool withBody, kj::Maybe<kj::StringPtr> range,
                             Response& response) {
    auto headers = answer("application/octet-stream");
    headers.set(names.acceptRanges, "bytes");
    SentRange part{0, file.size};
    bool isPart = false;
    KJ_IF_MAYBE (text, range) {
      KJ_IF_MAYBE (wanted, readRange(*text, file.size)) {
        part = *wanted;
        isPart = true;
        headers.set(names.contentRange,
                    kj::str("bytes ", part.begin, "-", part.end - 1, "/", file.size));
      } else {
        headers.set(names.contentRange, kj::str("bytes */", file.size));
        auto none = response.send(416, "Range Not Satisfiable", headers, uint64_t(0));
        co_return;
      }
    }
    auto body = response.send(isPart ? 206 : 200, isPart ? "Partial Content" : "OK", headers,
                              part.end - part.begin);
    if (withBody) co_await sendPart(file, part, *body);
  }

  // Sends pieces, so that no client keeps more than one in memory.
  kj::Promise<void> sendPart(const CachedFile& file, SentRange part, kj::AsyncOutputStream& body) {
    auto piece = kj::heapArray<kj::byte>(kj::min(kPiece, part.end - part.begin));
    while (part.begin < part.end) {
      auto wanted = piece.slice(0, kj::min(piece.size(), part.end - part.begin));
      auto size = readAt(file.fd, part.begin, wanted, file.path);
      if (size == 0) fail(ErrorKind::kUnavailable, kj::str(file.path, " became shorter"));
      co_await within(timer, kTakes, body.write(wanted.begin(), size),
                      kj::str("the client took nothing for ", kTakes / kj::SECONDS, " s"));
      part.begin += size;
    }
  }
};

class CacheServer final : private kj::TaskSet::ErrorHandler {
 public:
  CacheServer(kj::Timer& timer, kj::Own<kj::ConnectionReceiver> receiver,
              kj::ArrayPtr<const kj::StringPtr> roots)
      : receiver(kj::mv(receiver)),
        service(timer, names, roots),
        server(timer, names.table(), service),
        connections(*this) {}

  kj::Promise<void> run() {
    for (;;) {
      auto stream = co_await receiver->accept();
      if (open >= kMostConnections) continue;
      ++open;
      connections.add(server.listenHttp(kj::mv(stream)).attach(kj::defer([this] { --open; })));
    }
  }

 private:
  kj::Own<kj::ConnectionReceiver> receiver;
  CacheHeaders names;
  CacheService service;
  kj::HttpServer server;
  unsigned open = 0;
  kj::TaskSet connections;

  void taskFailed(kj::Exception&& e) override {
    // The client closed the connection in the middle of an answer.
    if (e.getType() == kj::Exception::Type::DISCONNECTED) return;
    log::warn("connection failed", {{"error", messageOf(e)}});
  }
};

}  // namespace

kj::Promise<void> serveCache(kj::Timer& timer, kj::Own<kj::ConnectionReceiver> receiver,
                             kj::ArrayPtr<const kj::StringPtr> roots) {
  auto server = kj::heap<CacheServer>(timer, kj::mv(receiver), roots);
  auto promise = server->run();
  return promise.attach(kj::mv(server));
}

}  // namespace talos::registryd
