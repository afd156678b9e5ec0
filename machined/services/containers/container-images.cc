#include "machined/services/containers/container-images.h"

#include <kj/debug.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/base/backoff.h"
#include "common/base/lines.h"
#include "common/base/node-messages.h"
#include "github.com/containerd/containerd/api/services/content/v1/content.pb.h"
#include "github.com/containerd/containerd/api/services/images/v1/images.pb.h"
#include "github.com/containerd/containerd/api/services/snapshots/v1/snapshots.pb.h"
#include "google/protobuf/empty.pb.h"
#include "machined/services/containers/cri.pb.h"

namespace talos::machined {
namespace {

namespace cri = ::runtime::v1;
namespace content = ::containerd::services::content::v1;
namespace named = ::containerd::services::images::v1;
namespace views = ::containerd::services::snapshots::v1;

constexpr kj::StringPtr kList = "/containerd.services.images.v1.Images/List"_kj,
                        kContent = "/containerd.services.content.v1.Content/Info"_kj,
                        kSizes = "/runtime.v1.ImageService/ListImages"_kj,
                        kStatus = "/runtime.v1.ImageService/ImageStatus"_kj,
                        kPull = "/runtime.v1.ImageService/PullImage"_kj,
                        kView = "/containerd.services.snapshots.v1.Snapshots/View"_kj,
                        kForgetImage = "/containerd.services.images.v1.Images/Delete"_kj,
                        kDropView = "/containerd.services.snapshots.v1.Snapshots/Remove"_kj;

constexpr const char *kUnpacker = "overlayfs", *kRootLabel = "containerd.io/gc.root";

// Label in which containerd records, at an image's config, the snapshot of the unpacked image.
constexpr const char* kUnpackedLabel = "containerd.io/gc.ref.snapshot.overlayfs";

// An etcd image has some 60 MB: 50 KB/s are enough. containerd itself gives up if no data has
// arrived for 5 minutes.
constexpr auto kPullDeadline = 20 * kj::MINUTES, kForgetDeadline = 2 * kj::MINUTES;
// The CRI starts a moment after containerd listens: 0.3 s on a fast machine, seconds under load.
constexpr auto kCriStart = 30 * kj::SECONDS, kCriAgain = 250 * kj::MILLISECONDS;
constexpr auto kFirstPause = 5 * kj::SECONDS, kLongestPause = 80 * kj::SECONDS;

kj::String imageText(const std::string& s) {
  return kj::heapString(s.data(), s.size());
}

kj::Date dateOf(const google::protobuf::Timestamp& t) {
  return kj::UNIX_EPOCH + t.seconds() * kj::SECONDS + t.nanos() * kj::NANOSECONDS;
}

kj::Promise<cri::ImageStatusResponse> statusOf(Containerd& containerd, kj::StringPtr reference) {
  cri::ImageStatusRequest request;
  request.mutable_image()->set_image(reference.cStr());
  return containerd.call<cri::ImageStatusResponse>(kStatus, kPodNamespace, request);
}

kj::String pinnedNameOf(const cri::Image& image, kj::StringPtr reference) {
  kj::Vector<kj::String> names;
  for (auto& name : image.repo_digests()) names.add(imageText(name));
  return kj::str(pinnedName(names, reference));
}

// Returns nullptr if containerd has at most the image's content.
kj::Promise<kj::Maybe<UnpackedImage>> unpacked(Containerd& containerd, std::string key,
                                               kj::String pinned) {
  content::InfoRequest request;
  request.set_digest(key);
  auto answer = co_await containerd.call<content::InfoResponse>(kContent, kPodNamespace, request);
  auto label = answer.info().labels().find(kUnpackedLabel);
  if (label == answer.info().labels().end()) co_return nullptr;
  co_return UnpackedImage{imageText(key), imageText(label->second), kj::mv(pinned)};
}

// Returns the text without its prefix that repeats the image's name: failed to X "reference": …
kj::StringPtr cause(kj::StringPtr text) {
  for (auto begin : {"failed to pull and unpack image \""_kj, "failed to resolve reference \""_kj,
                     "failed to resolve image \""_kj}) {
    if (!text.startsWith(begin)) continue;
    auto end = strstr(text.cStr(), "\": ");
    if (end != nullptr) text = text.slice(end + 3 - text.cStr());
  }
  return text;
}

// Returns "registry.example/a" of "registry.example/a:v1" and of "registry.example/a@sha256:…".
std::string repositoryOf(const std::string& name) {
  auto at = name.find('@');
  if (at != std::string::npos) return name.substr(0, at);
  auto colon = name.rfind(':'), slash = name.rfind('/');
  bool tag = colon != std::string::npos && (slash == std::string::npos || colon > slash);
  return tag ? name.substr(0, colon) : name;
}

bool isPinned(const std::string& name) {
  return name.find('@') != std::string::npos;
}

}  // namespace

kj::Promise<kj::Vector<ContainerImage>> images(Containerd& containerd) {
  auto listed = co_await containerd.call<named::ListImagesResponse>(kList, kPodNamespace,
                                                                    named::ListImagesRequest());
  auto sized = co_await containerd.call<cri::ListImagesResponse>(kSizes, kPodNamespace,
                                                                 cri::ListImagesRequest());
  std::map<std::string, uint64_t> sizes;
  for (auto& image : sized.images()) {
    for (auto& name : image.repo_tags()) sizes[name] = image.size();
    for (auto& name : image.repo_digests()) sizes[name] = image.size();
  }
  // The CRI keeps each image that it pulls by a tag under its digest as well.
  std::set<std::pair<std::string, std::string>> tagged;  // repository, digest
  for (auto& image : listed.images()) {
    if (!isPinned(image.name()))
      tagged.emplace(repositoryOf(image.name()), image.target().digest());
  }
  kj::Vector<ContainerImage> result;
  for (auto& image : listed.images()) {
    if (image.name().starts_with("sha256:")) continue;
    auto key = std::make_pair(repositoryOf(image.name()), image.target().digest());
    if (isPinned(image.name()) && tagged.count(key) > 0) continue;
    result.add(ContainerImage{.name = imageText(image.name()),
                              .digest = imageText(image.target().digest()),
                              .size = sizes[image.name()],
                              .created = dateOf(image.created_at())});
  }
  std::sort(result.begin(), result.end(),
            [](const ContainerImage& a, const ContainerImage& b) { return a.name < b.name; });
  co_return result;
}

kj::Promise<kj::Maybe<UnpackedImage>> unpackedImage(Containerd& containerd, kj::String reference) {
  auto answer = co_await statusOf(containerd, reference);
  if (answer.image().id().empty()) co_return nullptr;
  kj::Maybe<UnpackedImage> result;
  co_await unpacked(containerd, answer.image().id(), pinnedNameOf(answer.image(), reference))
      .then([&](kj::Maybe<UnpackedImage> image) { result = kj::mv(image); },
            [](kj::Exception&& e) {  // an incomplete image is not enough
              if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
            });
  co_return kj::mv(result);
}

kj::Promise<kj::String> pullContent(Containerd& containerd, kj::String reference) {
  cri::PullImageRequest request;
  request.mutable_image()->set_image(reference.cStr());
  auto until = containerd.timer.now() + kCriStart;
  for (;;) {
    kj::Maybe<kj::Exception> wrong;
    auto answer = co_await containerd
                      .call<cri::PullImageResponse>(kPull, kPodNamespace, request, kPullDeadline)
                      .catch_([&](kj::Exception&& e) {
                        wrong = kj::mv(e);
                        return cri::PullImageResponse();
                      });
    KJ_IF_MAYBE (e, wrong) {
      bool starts = containsText(messageOf(*e), "server is not initialized yet");
      if (!starts || containerd.timer.now() >= until) {
        kj::throwFatalException(pullProblem(reference, kindOf(*e), messageOf(*e)));
      }
    } else {
      co_return imageText(answer.image_ref());
    }
    co_await containerd.timer.afterDelay(kCriAgain);
  }
}

kj::Promise<UnpackedImage> pullImage(Containerd& containerd, kj::String reference) {
  auto key = co_await pullContent(containerd, kj::str(reference));
  auto status = co_await statusOf(containerd, reference);
  // If another client pulls an image by this name meanwhile, it has another digest: a caller that
  // verifies that digest, and uses this image, has verified nothing.
  if (status.image().id() != key.cStr()) {
    fail(ErrorKind::kConflict,
         kj::str(messages::kCannotPull, reference,
                 "\": another image was pulled by that name meanwhile, or it was removed; retry"));
  }
  auto image = co_await unpacked(containerd, key.cStr(), pinnedNameOf(status.image(), reference));
  KJ_IF_MAYBE (i, image) co_return kj::mv(*i);
  // Another client has pulled only the content in between.
  fail(ErrorKind::kUnavailable,
       kj::str(messages::kCannotPull, reference, "\": it was not unpacked; retry"));
}

kj::Promise<UnpackedImage> needImage(Containerd& containerd, kj::String reference,
                                     kj::Function<void(kj::StringPtr)> failed) {
  Backoff backoff({kFirstPause, kLongestPause});
  auto until = containerd.timer.now() + kPullDeadline;
  for (;;) {
    kj::Maybe<UnpackedImage> image;
    kj::Maybe<kj::Exception> wrong;
    co_await unpackedImage(containerd, kj::str(reference))
        .then([&](kj::Maybe<UnpackedImage> found) -> kj::Promise<UnpackedImage> {
          KJ_IF_MAYBE (t, found) return kj::mv(*t);
          return pullImage(containerd, kj::str(reference));
        })
        .then([&](UnpackedImage found) { image = kj::mv(found); },
              [&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (i, image) co_return kj::mv(*i);
    auto& e = KJ_ASSERT_NONNULL(wrong);
    bool final = kindOf(e) == ErrorKind::kNotFound || kindOf(e) == ErrorKind::kInvalidArgument;
    auto pause = backoff.next();
    if (final || containerd.timer.now() + pause >= until) kj::throwFatalException(kj::mv(e));
    failed(kj::str(messageOf(e), "; retrying in ", pause / kj::SECONDS, " s"));
    co_await containerd.timer.afterDelay(pause);
  }
}

kj::StringPtr pinnedName(kj::ArrayPtr<const kj::String> names, kj::StringPtr reference) {
  auto repository = [](kj::StringPtr name) {
    size_t end = name.size();
    KJ_IF_MAYBE (at, name.findFirst('@')) end = *at;
    size_t slash = 0;
    for (size_t i = 0; i < end; ++i) {
      if (name[i] == '/') slash = i;
    }
    for (size_t i = slash; i < end; ++i) {
      if (name[i] == ':') end = i;
    }
    return name.slice(0, end);
  };
  for (auto& name : names) {
    if (repository(name) == repository(reference)) return name;
  }
  return names.size() > 0 ? names[0].asPtr() : ""_kj;
}

kj::Promise<void> dropView(Containerd& containerd, kj::String name) {
  views::RemoveSnapshotRequest request;
  request.set_snapshotter(kUnpacker);
  request.set_key(name.cStr());
  return containerd.call<google::protobuf::Empty>(kDropView, kPodNamespace, request)
      .ignoreResult()
      .catch_([](kj::Exception&& e) {
        if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
      });
}

// The CRI has several names for one image, and normalizes the requested name: it adds the default
// registry and tag, and drops a tag beside a digest.
kj::Promise<void> forgetImage(Containerd& containerd, kj::String reference) {
  auto known = co_await statusOf(containerd, reference);
  auto listed = co_await containerd.call<named::ListImagesResponse>(kList, kPodNamespace,
                                                                    named::ListImagesRequest());
  std::set<std::string> digests;
  for (auto& image : listed.images()) {
    // The CRI does not know images that are not unpacked.
    if (image.name() == reference.cStr() || image.name() == known.image().id()) {
      digests.insert(image.target().digest());
    }
  }
  for (auto& image : listed.images()) {
    if (digests.count(image.target().digest()) == 0) continue;
    named::DeleteImageRequest request;
    request.set_name(image.name());
    request.set_sync(true);
    co_await containerd
        .call<google::protobuf::Empty>(kForgetImage, kPodNamespace, request, kForgetDeadline)
        .ignoreResult()
        .catch_([](kj::Exception&& e) {
          if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
        });
  }
}

kj::Promise<ImageView> viewImage(Containerd& containerd, kj::String name, kj::String snapshot) {
  co_await dropView(containerd, kj::str(name));
  views::ViewSnapshotRequest request;
  request.set_snapshotter(kUnpacker);
  request.set_key(name.cStr());
  request.set_parent(snapshot.cStr());
  (*request.mutable_labels())[kRootLabel] = "machined";
  auto answer =
      co_await containerd.call<views::ViewSnapshotResponse>(kView, kPodNamespace, request);
  if (answer.mounts_size() != 1) {
    fail(ErrorKind::kInternal, kj::str("containerd gave ", answer.mounts_size(), " mounts"));
  }
  auto& mount = answer.mounts(0);
  ImageView view{imageText(mount.type()), imageText(mount.source()), {}};
  for (auto& option : mount.options()) view.options.add(imageText(option));
  co_return kj::mv(view);
}

kj::Exception pullProblem(kj::StringPtr reference, ErrorKind kind, kj::StringPtr text) {
  auto problem = cause(text);
  auto say = [&](ErrorKind k, kj::StringPtr problem, kj::StringPtr todo) {
    return error(k, kj::str(messages::kCannotPull, reference, "\": ", problem,
                            todo.size() > 0 ? "; " : "", todo));
  };
  if (containsText(text, "failed to parse image reference") ||
      containsText(text, "invalid reference format")) {
    return say(ErrorKind::kInvalidArgument, messages::kInvalidReference,
               "use [registry/]name[:tag][@digest]");
  }
  if (containsText(text, "x509: ")) {
    return say(ErrorKind::kUnauthenticated, problem,
               "set machine.registries.config.<host>.tls.ca to the registry's CA");
  }
  if (containsText(text, "authorization failed") ||
      containsText(text, "no basic auth credentials") || containsText(text, "401 Unauthorized") ||
      containsText(text, "403 Forbidden")) {
    return say(ErrorKind::kPermissionDenied, problem,
               "check the name, and machine.registries.config.<host>.auth");
  }
  if (containsText(text, "unexpected commit digest") ||
      containsText(text, "unexpected commit size")) {
    return say(ErrorKind::kUnavailable,
               "the registry has sent other content than its digest promises", problem);
  }
  if (kind == ErrorKind::kNotFound) {
    return say(kind, "the registry has no such image", "check the name and the tag");
  }
  // containerd has no error code for most failures of a registry or a network.
  return say(kind == ErrorKind::kInternal ? ErrorKind::kUnavailable : kind, problem, "");
}

}  // namespace talos::machined
