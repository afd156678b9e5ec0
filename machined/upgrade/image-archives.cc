#include "machined/upgrade/image-archives.h"

#include <kj/debug.h>
#include <kj/encoding.h>
#include <string.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/confined/parser-client/http-connect.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kDigestMark = "sha256="_kj;
constexpr size_t kDigestBytes = 32;
constexpr auto kArchiveLimit = 18 * kj::MINUTES, kSilence = 60 * kj::SECONDS,
               kWatchPace = 1 * kj::SECONDS;
constexpr Backoff::Pace kAgainPace = {1 * kj::SECONDS, 16 * kj::SECONDS};
constexpr unsigned kMostIdleTries = 5;
// Number of reads from a client at a time.
constexpr size_t kWindowReads = 16;

[[noreturn]] void wrongUrl(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, kj::str("the URL of the image: ", problem));
}

kj::String digestOf(kj::StringPtr fragment) {
  if (!fragment.startsWith(kDigestMark)) {
    wrongUrl("what follows the # must be sha256=<hex>, the digest of the archive");
  }
  auto hex = kj::str(fragment.slice(kDigestMark.size()));
  for (auto& c : hex) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  auto bytes = kj::decodeHex(hex.asArray());
  if (bytes.hadErrors || bytes.size() != kDigestBytes || hex.size() != 2 * kDigestBytes) {
    wrongUrl("its digest is not 64 hexadecimal digits, as sha256sum prints them");
  }
  return hex;
}

bool mayPass(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
}

void requireDigest(kj::StringPtr name, kj::StringPtr digest, kj::StringPtr wanted) {
  if (digest == wanted) return;
  fail(ErrorKind::kInvalidArgument,
       kj::str(name, " is not the image that was named, or was damaged: its SHA-256 is ", digest,
               ", not ", wanted));
}

kj::Maybe<kj::Own<pki::VerifyKey>> keyOf(kj::StringPtr pem) {
  if (pem.size() == 0) return nullptr;
  return kj::heap<pki::VerifyKey>(pem);
}

}  // namespace

kj::Maybe<ArchiveUrl> archiveUrl(kj::StringPtr image, kj::StringPtr query) {
  if (!image.startsWith("http://") && !image.startsWith("https://")) return nullptr;
  ArchiveUrl url;
  auto end = strcspn(image.cStr(), "#");
  bool named = end < image.size();
  if (named) url.sha256 = digestOf(image.slice(end + 1));
  auto text = kj::heapString(image.slice(0, end));
  if (query.size() > 0) text = kj::str(text, "?", query);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { url.place = httpUrl(text); })) {
    wrongUrl(messageOf(*e));
  }
  if (!named && !url.place.secure) {
    wrongUrl(
        "http does not authenticate the server; name its digest, http://…#sha256=<hex>, as "
        "sha256sum prints it, or use https");
  }
  return kj::mv(url);
}

// The target of a download, and its progress.
class RealImageArchives::Target : public HttpPieces {
 public:
  virtual uint64_t have() const = 0;
};

class RealImageArchives::ToSpool final : public Target {
 public:
  ToSpool(ImageSpool& spool, Progress& progress) : spool(spool), progress(progress) {}

  uint64_t have() const override { return spool.size(); }
  void begins(uint64_t from, uint64_t size) override {
    if (from == 0) spool.startOver();
    KJ_REQUIRE(from == spool.size(), "not the range that was requested");
    total = size;
    requireSize(size);
    reserved = size == 0;
  }
  kj::Promise<void> piece(kj::Array<kj::byte> bytes) override {
    requireSize(spool.size() + bytes.size());
    if (!reserved) {
      reserved = true;
      co_await spool.reserve(total);
    }
    co_await spool.add(kj::mv(bytes));
    progress(spool.size(), total);
  }

 private:
  ImageSpool& spool;
  Progress& progress;
  uint64_t total = 0;
  bool reserved = false;

  static void requireSize(uint64_t size) {
    if (size <= kMostImageBytes) return;
    fail(ErrorKind::kInvalidArgument,
         kj::str("the archive is larger than ", kMostImageBytes >> 20, " MiB"));
  }
};

class RealImageArchives::ToMemory final : public Target {
 public:
  uint64_t have() const override { return bytes.size(); }
  void begins(uint64_t from, uint64_t) override {
    KJ_REQUIRE(from <= bytes.size(), "not the range that was requested");
    bytes.resize(from);
  }
  kj::Promise<void> piece(kj::Array<kj::byte> more) override {
    if (bytes.size() + more.size() > pki::kMostSignatureFile) {
      fail(ErrorKind::kInvalidArgument, "too large for a signature");
    }
    bytes.addAll(more);
    return kj::READY_NOW;
  }
  kj::Vector<kj::byte> bytes;
};

// Records the time of the last received bytes. A slow disk does not count as silence of the server.
class RealImageArchives::Watched final : public HttpPieces {
 public:
  Watched(HttpPieces& target, const kj::Timer& timer)
      : target(target), timer(timer), last(timer.now()) {}

  void begins(uint64_t from, uint64_t size) override {
    last = timer.now();
    whole = size;
    target.begins(from, size);
  }
  kj::Promise<void> piece(kj::Array<kj::byte> bytes) override {
    ++taking;
    KJ_DEFER({
      --taking;
      last = timer.now();
    });
    co_await target.piece(kj::mv(bytes));
  }
  kj::TimePoint lastProgress() const { return taking > 0 ? timer.now() : last; }
  // A server may send only a part of the requested range, and that part completely.
  void requireWhole(uint64_t have) const {
    if (have >= whole) return;
    fail(ErrorKind::kUnavailable, kj::str("the server sent ", have, " of ", whole, " bytes"));
  }

 private:
  HttpPieces& target;
  const kj::Timer& timer;
  kj::TimePoint last;
  uint64_t whole = 0;  // 0 if the server does not say
  unsigned taking = 0;
};

kj::Promise<void> RealImageArchives::attempt(const HttpSource& source, Target& target,
                                             Watched& watched, HttpProgress& state) {
  kj::Maybe<HttpSource> movedTo;
  auto* at = &source;
  for (unsigned redirects = 0; redirects <= kMostRedirects; ++redirects) {
    auto stream = co_await connectTo({deps.network, deps.timer, deps.resolve}, *at, state);
    kj::String authorities;
    if (at->secure) authorities = co_await deps.authorities();
    auto next = co_await deps.foreign.pieces(kj::mv(stream), *at, authorities, deps.clock.now(),
                                             target.have(), state, watched);
    if (next == nullptr) co_return watched.requireWhole(target.have());
    movedTo = kj::mv(next);
    at = &KJ_ASSERT_NONNULL(movedTo);
  }
  fail(ErrorKind::kUnavailable, kj::str("redirected more than ", kMostRedirects, " times"));
}

// Never resolves; rejects when nothing has come for kSilence.
kj::Promise<void> RealImageArchives::stalled(const Watched& watched, const HttpProgress& state) {
  auto doing = kj::str(state.doing);
  for (auto since = deps.timer.now();;) {
    auto now = deps.timer.now();
    if (state.doing != doing) {
      doing = kj::str(state.doing);
      since = now;
    }
    since = kj::max(since, watched.lastProgress());
    if (now - since >= kSilence) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("nothing came for ", kSilence / kj::SECONDS, " s: ", doing));
    }
    co_await deps.timer.afterDelay(kWatchPace);
  }
}

kj::Promise<void> RealImageArchives::download(const HttpSource& source, Target& target,
                                              kj::TimePoint deadline) {
  Backoff backoff(kAgainPace);
  for (unsigned idle = 0;;) {
    auto had = target.have();
    kj::Maybe<kj::Exception> wrong;
    HttpProgress state;
    auto late = deps.timer.atTime(deadline).then([]() {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", kArchiveLimit / kj::MINUTES, " minutes"));
    });
    Watched watched(target, deps.timer);
    co_await attempt(source, target, watched, state)
        .exclusiveJoin(stalled(watched, state))
        .exclusiveJoin(kj::mv(late))
        .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
    if (wrong == nullptr) co_return;
    auto& e = KJ_ASSERT_NONNULL(wrong);
    idle = target.have() > had ? 0 : idle + 1;
    auto pause = backoff.next();
    if (!mayPass(e) || idle == kMostIdleTries || deps.timer.now() + pause >= deadline) {
      fail(kindOf(e), kj::str("cannot fetch ", source.shown, ": ", httpReason(e, state),
                              target.have() > 0 ? kj::str(" (after ", target.have(), " bytes)")
                                                : kj::String()));
    }
    co_await deps.timer.afterDelay(pause);
  }
}

kj::Promise<kj::Array<kj::byte>> RealImageArchives::signatureAt(const HttpSource& archive,
                                                                kj::TimePoint deadline) {
  HttpSource place;
  place.secure = archive.secure;
  place.host = kj::str(archive.host);
  place.port = archive.port;
  place.authority = kj::str(archive.authority);
  auto path = strcspn(archive.target.cStr(), "?");
  place.target = kj::str(archive.target.slice(0, path), ".sig", archive.target.slice(path));
  place.shown = kj::str(archive.shown, ".sig");
  ToMemory target;
  co_await download(place, target, deadline);
  co_return pki::signatureOf(target.bytes);
}

kj::Promise<void> RealImageArchives::verify(ImageSpool& spool, kj::StringPtr name,
                                            kj::StringPtr digest, kj::Own<pki::VerifyKey> key,
                                            kj::Array<kj::byte> signature) {
  auto called = kj::str(key->name());
  if (co_await spool.hasSignature(kj::mv(key), kj::mv(signature))) co_return;
  fail(ErrorKind::kPermissionDenied,
       kj::str(name,
               " is not signed by the key of machine.install.imageKey: the signature does not fit "
               "sha256:",
               digest, " and the key ", called, "; nothing was written"));
}

kj::Promise<ImageArchive> RealImageArchives::opened(kj::Own<ImageSpool> spool, kj::StringPtr name,
                                                    kj::String digest) {
  auto parts = co_await deps.foreign.archive(
      name, spool->size(),
      [&spool = *spool](uint64_t offset, size_t size) { return spool.read(offset, size); });
  co_return ImageArchive{kj::mv(spool), kj::mv(parts), kj::mv(digest)};
}

kj::Promise<ImageArchive> RealImageArchives::fetch(ArchiveUrl url, kj::String key,
                                                   Progress progress) {
  auto verifier = keyOf(key);
  auto& name = url.place.shown;
  auto deadline = deps.timer.now() + kArchiveLimit;
  auto spool = co_await ImageSpool::make(deps.uv, deps.folder);
  ToSpool target(*spool, progress);
  co_await download(url.place, target, deadline);
  if (spool->size() == 0) fail(ErrorKind::kInvalidArgument, kj::str(name, " is empty"));
  auto digest = co_await spool->digest();
  if (url.sha256.size() > 0) requireDigest(name, digest, url.sha256);
  KJ_IF_MAYBE (own, verifier) {
    kj::Array<kj::byte> signature;
    co_await signatureAt(url.place, deadline)
        .then([&](kj::Array<kj::byte> s) { signature = kj::mv(s); })
        .catch_([&](kj::Exception&& e) {
          fail(mayPass(e) ? kindOf(e) : ErrorKind::kPermissionDenied,
               kj::str(name, " (sha256:", digest,
                       ") has no signature by the key of "
                       "machine.install.imageKey, ",
                       (*own)->name(), ": ", messageOf(e)));
        });
    co_await verify(*spool, name, digest, kj::mv(*own), kj::mv(signature));
  }
  co_return co_await opened(kj::mv(spool), name, kj::mv(digest));
}

kj::Promise<void> RealImageArchives::take(ClientFile& file, kj::StringPtr name, ImageSpool& spool,
                                          Progress& progress) {
  co_await spool.reserve(file.size);
  while (spool.size() < file.size) {
    kj::Vector<kj::Promise<kj::Array<kj::byte>>> reads;
    auto end = kj::min(file.size, spool.size() + kWindowReads * kMostPieceBytes);
    for (auto at = spool.size(); at < end; at += kMostPieceBytes) {
      auto size = static_cast<uint32_t>(kj::min(end - at, kMostPieceBytes));
      auto request = file.bytes.readRequest();
      request.setOffset(at);
      request.setSize(size);
      reads.add(request.send().then([size, name](auto&& answer) {
        if (answer.getBytes().size() != size) {
          fail(ErrorKind::kInvalidArgument, kj::str(name, " was truncated while being read"));
        }
        return kj::heapArray(answer.getBytes());
      }));
    }
    auto came = co_await within(
        deps.timer, kSilence, kj::joinPromises(reads.releaseAsArray()),
        kj::str("the client sent nothing of ", name, " for ", kSilence / kj::SECONDS, " s"));
    kj::Vector<kj::byte> bytes(end - spool.size());
    for (auto& part : came) bytes.addAll(part);
    co_await spool.add(bytes.releaseAsArray());
    progress(spool.size(), file.size);
  }
}

kj::Promise<ImageArchive> RealImageArchives::receive(kj::String name, ClientFile file,
                                                     kj::String key, Progress progress) {
  auto verifier = keyOf(key);
  if (file.size == 0 || file.size > kMostImageBytes || file.sha256.size() != kDigestBytes) {
    fail(ErrorKind::kInvalidArgument, kj::str(name, ": an archive has 1 byte to ",
                                              kMostImageBytes >> 20, " MiB, and a SHA-256"));
  }
  auto spool = co_await ImageSpool::make(deps.uv, deps.folder);
  co_await within(deps.timer, kArchiveLimit, take(file, name, *spool, progress),
                  kj::str("the client did not send all of ", name, " within ",
                          kArchiveLimit / kj::MINUTES, " minutes"));
  auto digest = co_await spool->digest();
  requireDigest(name, digest, kj::encodeHex(file.sha256));
  KJ_IF_MAYBE (own, verifier) {
    if (file.signature.size() == 0) {
      fail(ErrorKind::kPermissionDenied, kj::str(name, " (sha256:", digest,
                                                 ") has no signature by the key of "
                                                 "machine.install.imageKey, ",
                                                 (*own)->name(), "; put it into ", name, ".sig"));
    }
    co_await verify(*spool, name, digest, kj::mv(*own), pki::signatureOf(file.signature));
  }
  co_return co_await opened(kj::mv(spool), name, kj::mv(digest));
}

}  // namespace talos::machined
