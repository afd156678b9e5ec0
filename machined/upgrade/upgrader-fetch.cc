// Fetches images for the Upgrader (upgrader.h), and keeps one of them for later.
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/confined/parser-client/parser-messages.h"
#include "machined/upgrade/upgrader.h"

namespace talos::machined {
namespace {

constexpr auto kReadyTimeout = 2 * kj::MINUTES, kKeepFor = 1 * kj::HOURS;
constexpr size_t kMostName = 256;
constexpr kj::StringPtr kFileDigest = "sha256:"_kj;

}  // namespace

// Checks and shortens the name of the image.
Upgrader::Source Upgrader::sourceOf(UpgradeRequest& request) {
  if (request.image.size() == 0)
    fail(ErrorKind::kInvalidArgument, "the image is missing; use --image");
  Source source;
  KJ_IF_MAYBE (file, request.file) {
    request.image = oneLine(request.image, kMostName);  // the client chose it freely
    source.digest = kj::str(kFileDigest, kj::encodeHex(file->sha256));
    return source;
  }
  source.url = archiveUrl(request.image, request.query);
  KJ_IF_MAYBE (url, source.url) {
    request.image = kj::str(url->place.shown);  // the rest may be secret
    if (url->sha256.size() > 0) {
      source.digest = kj::str(url->place.shown, "#sha256=", url->sha256);
    }
    return source;
  }
  source.registry = !request.image.startsWith(kFileDigest);
  source.digest = kj::str(request.image);
  return source;
}

kj::Promise<void> Upgrader::requireReady(const Source& source) {
  return within(deps.timer, kReadyTimeout, ready(source.registry),
                kj::str("the node is still booting, or its containerd does not run; see "
                        "talosctl services"));
}

kj::Promise<Upgrader::Wanted> Upgrader::obtain(UpgradeRequest& request, Source& source,
                                               kj::StringPtr key) {
  co_await dropKept();
  if (source.registry) co_return co_await pulled(kj::str(request.image), kj::str(key));
  if (source.url == nullptr && request.file == nullptr) {
    fail(ErrorKind::kNotFound, kj::str("the node does not keep the image ", source.digest,
                                       ", which was a file; send the file again"));
  }
  co_return co_await archived(request, kj::mv(source.url), kj::str(key));
}

kj::Promise<Upgrader::Fetched> Upgrader::fetch(UpgradeRequest request, bool keep) {
  giveWay();
  return verify(kj::mv(request), keep);
}

kj::Promise<Upgrader::Fetched> Upgrader::verify(UpgradeRequest request, bool keep) {
  requireIdle();
  auto source = sourceOf(request);
  fetching = kj::str(request.image);
  KJ_DEFER({
    fetching = nullptr;
    fetched = kj::String();
    publish();
  });
  publish();
  auto key = deps.node.imageKey();
  co_await requireReady(source);
  auto earlier = takeKept(source, key);
  auto next = earlier != nullptr ? kj::mv(KJ_ASSERT_NONNULL(earlier))
                                 : co_await obtain(request, source, key);
  if (!request.force) co_await requireFits(next, key.size() > 0);
  auto facts = co_await slots.factsOf(next.content);
  Fetched result{kj::str(next.digest), kj::mv(facts.version), key.size() > 0};
  keepForLater(kj::mv(next), kj::mv(key));
  if (!keep) co_await dropKept();
  co_return kj::mv(result);
}

kj::Promise<Upgrader::Wanted> Upgrader::pulled(kj::String image, kj::String key) {
  // A view that a power cut has left would show the content of that time.
  co_await dropView(deps.containerd, kj::str(kViewName));
  co_await forgetImage(deps.containerd, kj::str(image));
  auto unpacked = co_await pullImage(deps.containerd, kj::mv(image));
  if (key.size() > 0) co_await deps.node.requireSignature(kj::str(unpacked.pinned), kj::mv(key));
  auto view = co_await viewImage(deps.containerd, kj::str(kViewName), kj::mv(unpacked.snapshot));
  Wanted next{};
  next.digest = kj::mv(unpacked.pinned);
  next.content = kj::mv(view);
  co_return kj::mv(next);
}

kj::Promise<Upgrader::Wanted> Upgrader::archived(UpgradeRequest& request, kj::Maybe<ArchiveUrl> url,
                                                 kj::String key) {
  kj::Maybe<ImageArchive> archive;
  kj::String prefix;
  KJ_IF_MAYBE (u, url) {
    prefix = kj::str(u->place.shown, "#");
    archive =
        co_await deps.archives.fetch(kj::mv(*u), kj::mv(key), KJ_BIND_METHOD(*this, progressed));
  } else KJ_IF_MAYBE (file, request.file) {
    archive = co_await deps.archives.receive(kj::str(request.image), kj::mv(*file), kj::mv(key),
                                             KJ_BIND_METHOD(*this, progressed));
  }
  auto& a = KJ_ASSERT_NONNULL(archive);
  Wanted next{};
  next.digest =
      prefix.size() > 0 ? kj::str(prefix, "sha256=", a.sha256) : kj::str("sha256:", a.sha256);
  next.content = kj::mv(a);
  co_return kj::mv(next);
}

// Publishes one message for each twentieth.
void Upgrader::progressed(uint64_t done, uint64_t size) {
  auto text = size == 0 ? kj::str(done >> 24 << 4, " MiB")
                        : kj::str(done * 20 / size * 5, " % of ", size >> 20, " MiB");
  if (text == fetched) return;
  fetched = kj::mv(text);
  publish();
}

kj::Maybe<Upgrader::Wanted> Upgrader::takeKept(const Source& source, kj::StringPtr key) {
  KJ_IF_MAYBE (k, kept) {
    if (k->image.digest != source.digest || k->key != key) return nullptr;
    auto image = kj::mv(k->image);
    kept = nullptr;
    return kj::mv(image);
  }
  return nullptr;
}

void Upgrader::keepForLater(Wanted image, kj::String key) {
  auto number = ++keptNumber;
  kept = Kept{kj::mv(image), kj::mv(key), number};
  tasks.add(deps.timer.afterDelay(kKeepFor).then([this, number]() -> kj::Promise<void> {
    KJ_IF_MAYBE (k, kept) {
      if (k->number == number) return dropKept();
    }
    return kj::READY_NOW;
  }));
}

// An archive has no name, and disappears with its descriptor.
kj::Promise<void> Upgrader::dropKept() {
  bool viewed = false;
  KJ_IF_MAYBE (k, kept) viewed = k->image.content.is<ImageView>();
  kept = nullptr;
  if (viewed) {
    co_await dropView(deps.containerd, kj::str(kViewName)).catch_([](kj::Exception&&) {});
  }
}

}  // namespace talos::machined
