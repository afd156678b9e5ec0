// For tests: a containerd that pulls from a registry, both of them in this process.
#pragma once

#include <kj/encoding.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/grpc/test-grpc-server.h"
#include "common/tls/signature.h"
#include "github.com/containerd/containerd/api/services/content/v1/content.pb.h"
#include "github.com/containerd/containerd/api/services/images/v1/images.pb.h"
#include "github.com/containerd/containerd/api/services/snapshots/v1/snapshots.pb.h"
#include "google/protobuf/empty.pb.h"
#include "machined/services/containers/containerd-connection.h"
#include "machined/services/containers/cri.pb.h"
#include "machined/services/containers/grpc-health.pb.h"

namespace talos::machined {

struct KeyPair {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  ~KeyPair() { EVP_PKEY_free(key); }
  kj::String pem() const {
    BIO* bio = BIO_new(BIO_s_mem());
    KJ_DEFER(BIO_free(bio));
    KJ_ASSERT(PEM_write_bio_PUBKEY(bio, key) == 1);
    char* data;
    auto size = BIO_get_mem_data(bio, &data);
    return kj::heapString(data, static_cast<size_t>(size));
  }
  kj::Array<kj::byte> sign(kj::ArrayPtr<const kj::byte> bytes) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    KJ_DEFER(EVP_MD_CTX_free(context));
    size_t size = 80;
    auto out = kj::heapArray<kj::byte>(size);
    KJ_ASSERT(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key) == 1 &&
              EVP_DigestSign(context, out.begin(), &size, bytes.begin(), bytes.size()) == 1);
    return kj::heapArray(out.slice(0, size));
  }
};

class ModelPulls {
 public:
  explicit ModelPulls(kj::Timer& timer)
      : containerd(timer, [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
          if (!runs) return error(ErrorKind::kUnavailable, "does not run");
          return server.dial();
        }) {
    namespace cri = ::runtime::v1;
    namespace content = ::containerd::services::content::v1;
    namespace named = ::containerd::services::images::v1;
    namespace views = ::containerd::services::snapshots::v1;
    namespace health = ::grpc::health::v1;
    const std::string images = "/containerd.services.images.v1.Images/",
                      contents = "/containerd.services.content.v1.Content/",
                      snapshots = "/containerd.services.snapshots.v1.Snapshots/",
                      pulls = "/runtime.v1.ImageService/";
    on<health::HealthCheckRequest>("/grpc.health.v1.Health/Check", [](auto&, auto& x) {
      health::HealthCheckResponse answer;
      answer.set_status(health::HealthCheckResponse::SERVING);
      give(x, answer);
    });
    on<cri::PullImageRequest>(pulls + "PullImage", [this](auto& request, auto& x) {
      auto name = request.image().image();
      auto found = registry.find(name);
      ++asked;
      if (silent) return;
      if (away) return x.finish(14, "dial tcp: i/o timeout");
      if (found == registry.end()) return x.finish(5, name + ": not found");
      pulled[name] = found->second;
      if (name.ends_with(".sig")) return x.finish(2, "mismatched image rootfs and manifest layers");
      cri::PullImageResponse answer;
      answer.set_image_ref(kConfig);
      give(x, answer);
    });
    on<cri::ImageStatusRequest>(pulls + "ImageStatus", [this](auto& request, auto& x) {
      cri::ImageStatusResponse answer;
      auto name = request.image().image();
      answer.mutable_image()->set_id(kConfig);
      answer.mutable_image()->add_repo_digests(name.substr(0, name.rfind(':')) + "@" +
                                               pulled[name]);
      give(x, answer);
    });
    on<named::ListImagesRequest>(images + "List", [this](auto&, auto& x) {
      named::ListImagesResponse answer;
      for (auto& [name, digest] : pulled) {
        auto& image = *answer.add_images();
        image.set_name(name);
        image.mutable_target()->set_digest(digest);
      }
      give(x, answer);
    });
    on<named::GetImageRequest>(images + "Get", [this](auto& request, auto& x) {
      auto found = pulled.find(request.name());
      if (found == pulled.end()) return x.finish(5, "not found");
      named::GetImageResponse answer;
      answer.mutable_image()->mutable_target()->set_digest(found->second);
      give(x, answer);
    });
    on<named::DeleteImageRequest>(images + "Delete", [this](auto& request, auto& x) {
      pulled.erase(request.name());
      give(x, google::protobuf::Empty());
    });
    on<content::InfoRequest>(contents + "Info", [this](auto& request, auto& x) {
      content::InfoResponse answer;
      if (request.digest() == kConfig) {
        (*answer.mutable_info()->mutable_labels())["containerd.io/gc.ref.snapshot.overlayfs"] =
            "sha256:2";
      } else {
        auto found = blobs.find(request.digest());
        if (found == blobs.end()) return x.finish(5, request.digest() + ": not found");
        answer.mutable_info()->set_size(static_cast<int64_t>(found->second.size()));
      }
      give(x, answer);
    });
    on<content::ReadContentRequest>(contents + "Read", [this](auto& request, auto& x) {
      content::ReadContentResponse answer;
      answer.set_data(
          blobs.at(request.digest())
              .substr(static_cast<size_t>(request.offset()), static_cast<size_t>(request.size())));
      give(x, answer);
    });
    on<views::RemoveSnapshotRequest>(snapshots + "Remove",
                                     [](auto&, auto& x) { give(x, google::protobuf::Empty()); });
    on<views::ViewSnapshotRequest>(snapshots + "View", [this](auto&, auto& x) {
      ++viewed;
      views::ViewSnapshotResponse answer;
      answer.add_mounts()->set_type("overlay");
      give(x, answer);
    });
  }
  KJ_DISALLOW_COPY_AND_MOVE(ModelPulls);

  // Stores the bytes and returns their digest.
  std::string put(const std::string& bytes) {
    auto digest =
        std::string(pki::sha256Of(kj::arrayPtr(bytes.data(), bytes.size()).asBytes()).cStr());
    blobs[digest] = bytes;
    return digest;
  }

  static constexpr const char* kConfig = "sha256:1";
  std::map<std::string, std::string> registry;  // from a name to a digest
  std::map<std::string, std::string> pulled;
  std::map<std::string, std::string> blobs;
  bool runs = true, away = false;  // containerd; the registry
  bool silent = false;             // it does not answer
  unsigned asked = 0;
  unsigned viewed = 0;
  grpc::ModelServer server;
  Containerd containerd;

 private:
  template <typename Request, typename Answer>
  void on(const std::string& path, Answer answer) {
    server.methods[path] = [answer](grpc::ModelServer::Exchange& x) {
      if (!x.ended) return;
      Request request;
      KJ_REQUIRE(request.ParseFromString(x.messages.front()));
      answer(request, x);
    };
  }
  template <typename Response>
  static void give(grpc::ModelServer::Exchange& x, const Response& response) {
    x.send(response.SerializeAsString());
    x.finish();
  }
};

// Objects as cosign puts them into a registry.
inline std::string signedPayload(const std::string& digest,
                                 const std::string& type = "cosign container image signature") {
  return R"({"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":")" +
         digest + R"("},"type":")" + type + R"("},"optional":null})";
}
inline std::string signatureLayer(const std::string& digest,
                                  kj::ArrayPtr<const kj::byte> signature) {
  return R"({"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":")" + digest +
         R"(","annotations":{"dev.cosignproject.cosign/signature":")" +
         std::string(kj::encodeBase64(signature).cStr()) + R"("}})";
}

}  // namespace talos::machined
