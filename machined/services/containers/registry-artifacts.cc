#include "machined/services/containers/registry-artifacts.h"

#include <string.h>

#include "github.com/containerd/containerd/api/services/content/v1/content.pb.h"
#include "github.com/containerd/containerd/api/services/images/v1/images.pb.h"
#include "machined/services/containers/container-images.h"

namespace talos::machined {
namespace {

namespace content = ::containerd::services::content::v1;
namespace named = ::containerd::services::images::v1;

constexpr kj::StringPtr kInfo = "/containerd.services.content.v1.Content/Info"_kj,
                        kRead = "/containerd.services.content.v1.Content/Read"_kj,
                        kGet = "/containerd.services.images.v1.Images/Get"_kj;
// A read of this size is answered by one message.
constexpr size_t kPiece = 32u << 10;

}  // namespace

kj::Promise<kj::Array<kj::byte>> pulledContent(Containerd& containerd, kj::String digest,
                                               size_t most) {
  content::InfoRequest about;
  about.set_digest(digest.cStr());
  auto info = co_await containerd.call<content::InfoResponse>(kInfo, kPodNamespace, about);
  auto size = info.info().size();
  if (size < 0 || static_cast<uint64_t>(size) > most) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(digest, " has ", size, " bytes, and at most ", most, " are read"));
  }
  auto bytes = kj::heapArray<kj::byte>(static_cast<size_t>(size));
  for (size_t at = 0; at < bytes.size();) {
    content::ReadContentRequest request;
    request.set_digest(digest.cStr());
    request.set_offset(static_cast<int64_t>(at));
    request.set_size(static_cast<int64_t>(kj::min(kPiece, bytes.size() - at)));
    auto answer =
        co_await containerd.call<content::ReadContentResponse>(kRead, kPodNamespace, request);
    auto& data = answer.data();
    if (data.empty() || data.size() > bytes.size() - at) {
      fail(ErrorKind::kInternal, kj::str("containerd gave ", data.size(), " bytes of ", digest));
    }
    memcpy(bytes.begin() + at, data.data(), data.size());
    at += data.size();
  }
  co_return kj::mv(bytes);
}

kj::Promise<kj::Array<kj::byte>> pullManifest(Containerd& containerd, kj::String reference,
                                              size_t most) {
  co_await forgetImage(containerd, kj::str(reference));
  // The CRI fails when it starts to unpack something that is not an image. By then the whole
  // content is stored under its name.
  kj::Maybe<kj::Exception> wrong;
  co_await pullContent(containerd, kj::str(reference))
      .ignoreResult()
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  named::GetImageRequest request;
  request.set_name(reference.cStr());
  auto image = co_await containerd.call<named::GetImageResponse>(kGet, kPodNamespace, request)
                   .catch_([&](kj::Exception&& e) -> kj::Promise<named::GetImageResponse> {
                     KJ_IF_MAYBE (first, wrong) return kj::mv(*first);
                     return kj::mv(e);
                   });
  auto& digest = image.image().target().digest();
  co_return co_await pulledContent(containerd, kj::heapString(digest.data(), digest.size()), most);
}

}  // namespace talos::machined
