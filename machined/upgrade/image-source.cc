#include "machined/upgrade/image-source.h"

#include <kj/debug.h>
#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/confined/parser-client/parser-messages.h"

namespace talos::machined {
namespace {

constexpr auto kReadyTimeout = 2 * kj::MINUTES, kReadyInterval = 1 * kj::SECONDS,
               kKeepFor = 1 * kj::HOURS;
constexpr size_t kMostName = 256;
constexpr kj::StringPtr kFileDigest = "sha256:"_kj;
constexpr kj::StringPtr kViewName = "machined-upgrade"_kj;  // of an image

}  // namespace

ImageOrigin originOf(UpgradeRequest& request) {
  if (request.image.size() == 0)
    fail(ErrorKind::kInvalidArgument, "the image is missing; use --image");
  ImageOrigin origin;
  KJ_IF_MAYBE (file, request.file) {
    request.image = oneLine(request.image, kMostName);  // the client chose it freely
    origin.digest = kj::str(kFileDigest, kj::encodeHex(file->sha256));
    return origin;
  }
  origin.url = archiveUrl(request.image, request.query);
  KJ_IF_MAYBE (url, origin.url) {
    request.image = kj::str(url->place.shown);  // the rest may be secret
    if (url->sha256.size() > 0) {
      origin.digest = kj::str(url->place.shown, "#sha256=", url->sha256);
    }
    return origin;
  }
  origin.registry = !request.image.startsWith(kFileDigest);
  origin.digest = kj::str(request.image);
  return origin;
}

kj::Promise<void> ImageSource::booted(bool containerd) {
  while (!deps.node.isBooted()) co_await deps.timer.afterDelay(kReadyInterval);
  if (containerd) co_await deps.containerd.serving();
}

kj::Promise<void> ImageSource::whenReady(const ImageOrigin& origin) {
  return within(deps.timer, kReadyTimeout, booted(origin.registry),
                kj::str("the node is still booting, or its containerd does not run; see "
                        "talosctl services"));
}

kj::Promise<VerifiedImage> ImageSource::get(UpgradeRequest& request, ImageOrigin origin,
                                            kj::StringPtr key) {
  KJ_IF_MAYBE (image, takeKept(origin, key)) co_return kj::mv(*image);
  auto owned = kj::str(key);
  co_await drop();
  if (origin.registry) co_return co_await pull(kj::str(request.image), kj::mv(owned));
  if (origin.url == nullptr && request.file == nullptr) {
    fail(ErrorKind::kNotFound, kj::str("the node does not keep the image ", origin.digest,
                                       ", which was a file; send the file again"));
  }
  co_return co_await archive(request, kj::mv(origin.url), kj::mv(owned));
}

kj::Promise<VerifiedImage> ImageSource::pull(kj::String image, kj::String key) {
  // A view that a power cut has left would show the content of that time.
  co_await dropView(deps.containerd, kj::str(kViewName));
  co_await forgetImage(deps.containerd, kj::str(image));
  auto unpacked = co_await pullImage(deps.containerd, kj::mv(image));
  if (key.size() > 0) co_await deps.node.requireSignature(kj::str(unpacked.pinned), kj::mv(key));
  auto view = co_await viewImage(deps.containerd, kj::str(kViewName), kj::mv(unpacked.snapshot));
  co_return VerifiedImage{.digest = kj::mv(unpacked.pinned), .content = kj::mv(view)};
}

kj::Promise<VerifiedImage> ImageSource::archive(UpgradeRequest& request, kj::Maybe<ArchiveUrl> url,
                                                kj::String key) {
  kj::Maybe<ImageArchive> found;
  kj::String prefix = kj::str(kFileDigest);
  KJ_IF_MAYBE (u, url) {
    prefix = kj::str(u->place.shown, "#sha256=");
    found =
        co_await deps.archives.fetch(kj::mv(*u), kj::mv(key), KJ_BIND_METHOD(*this, progressed));
  } else KJ_IF_MAYBE (file, request.file) {
    found = co_await deps.archives.receive(kj::str(request.image), kj::mv(*file), kj::mv(key),
                                           KJ_BIND_METHOD(*this, progressed));
  }
  auto& a = KJ_ASSERT_NONNULL(found);
  auto digest = kj::str(prefix, a.sha256);
  co_return VerifiedImage{.digest = kj::mv(digest), .content = kj::mv(a)};
}

// Shows one message for each twentieth.
void ImageSource::progressed(uint64_t done, uint64_t size) {
  deps.progress.say(UpgradeActivity::kFetching,
                    size == 0 ? kj::str(done >> 24 << 4, " MiB")
                              : kj::str(done * 20 / size * 5, " % of ", size >> 20, " MiB"));
}

kj::Maybe<VerifiedImage> ImageSource::takeKept(const ImageOrigin& origin, kj::StringPtr key) {
  KJ_IF_MAYBE (k, kept) {
    if (k->image.digest != origin.digest || k->key != key) return nullptr;
    auto image = kj::mv(k->image);
    kept = nullptr;
    image.wasKept = true;
    return kj::mv(image);
  }
  return nullptr;
}

void ImageSource::keep(VerifiedImage image, kj::String key) {
  auto number = ++lastNumber;
  kept = Kept{kj::mv(image), kj::mv(key), number};
  deps.tasks.add(deps.timer.afterDelay(kKeepFor).then([this, number]() -> kj::Promise<void> {
    KJ_IF_MAYBE (k, kept) {
      if (k->number == number) return drop();
    }
    return kj::READY_NOW;
  }));
}

kj::Promise<void> ImageSource::drop() {
  KJ_IF_MAYBE (k, kept) {
    auto image = kj::mv(k->image);
    kept = nullptr;
    co_await release(image);
  }
}

// An archive has no name, and disappears with its descriptor.
kj::Promise<void> ImageSource::release(const VerifiedImage& image) {
  if (!image.content.is<ImageView>()) return kj::READY_NOW;
  return dropView(deps.containerd, kj::str(kViewName)).catch_([](kj::Exception&&) {});
}

}  // namespace talos::machined
