// Pods, pulls and their messages, with a model of containerd.
#include <gmock/gmock.h>
#include <kj/debug.h>

#include "common/grpc/test-grpc-server.h"
#include "common/testing/virtual-time.h"
#include "github.com/containerd/containerd/api/services/containers/v1/containers.pb.h"
#include "github.com/containerd/containerd/api/services/content/v1/content.pb.h"
#include "github.com/containerd/containerd/api/services/images/v1/images.pb.h"
#include "github.com/containerd/containerd/api/services/tasks/v1/tasks.pb.h"
#include "machined/services/containers/container-images.h"
#include "machined/services/containers/container-list.h"
#include "machined/services/containers/container-run.h"
#include "machined/services/containers/cri.pb.h"
#include "machined/services/containers/grpc-health.pb.h"

namespace talos::machined {
namespace {

namespace cri = ::runtime::v1;
namespace tasks = ::containerd::services::tasks::v1;
namespace store = ::containerd::services::containers::v1;
namespace content = ::containerd::services::content::v1;
using grpc::ModelServer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class ContainersModelTest : public testing::Test {
 public:
  ~ContainersModelTest() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelServer server;
  bool runs = true;
  Containerd containerd{timer, [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                          if (!runs) return error(ErrorKind::kUnavailable, "does not run");
                          return server.dial();
                        }};
  std::vector<std::string> asked;  // the stopped objects, in order

  template <typename Request, typename Response>
  void on(std::string path, std::function<Response(const Request&)> answer) {
    server.methods[path] = [answer](ModelServer::Exchange& x) {
      if (!x.ended) return;
      Request request;
      ASSERT_TRUE(request.ParseFromString(x.messages.front()));
      x.send(answer(request).SerializeAsString());
      x.finish();
    };
  }
  static void addPod(cri::ListPodSandboxResponse& list, std::string id, std::string name) {
    auto& pod = *list.add_items();
    pod.set_id(id);
    pod.mutable_metadata()->set_namespace_("kube-system");
    pod.mutable_metadata()->set_name(name);
  }
  static void addMember(cri::ListContainersResponse& list, std::string id, std::string pod,
                        cri::ContainerState state = cri::CONTAINER_RUNNING,
                        std::string image = "") {
    auto& container = *list.add_containers();
    container.set_id(id);
    container.set_pod_sandbox_id(pod);
    container.mutable_metadata()->set_name("main");
    container.mutable_image()->set_image(image.empty() ? "example.com/" + id : image);
    container.set_state(state);
  }
  // Two pods: "own" with its own network, "node" with the node's.
  void twoPods() {
    on<cri::ListPodSandboxRequest, cri::ListPodSandboxResponse>(
        "/runtime.v1.RuntimeService/ListPodSandbox", [](auto& request) {
          EXPECT_EQ(cri::SANDBOX_READY, request.filter().state().state());
          EXPECT_TRUE(request.filter().has_state());
          cri::ListPodSandboxResponse list;
          addPod(list, "p-node", "node");
          addPod(list, "p-own", "own");
          return list;
        });
    on<cri::ListContainersRequest, cri::ListContainersResponse>(
        "/runtime.v1.RuntimeService/ListContainers", [](auto&) {
          cri::ListContainersResponse list;
          addMember(list, "c-node", "p-node");
          addMember(list, "c-own", "p-own", cri::CONTAINER_RUNNING, "sha256:1");
          addMember(list, "c-old", "p-own", cri::CONTAINER_EXITED, "sha256:3");
          addMember(list, "c-stray", "p-gone");
          return list;
        });
    on<cri::PodSandboxStatusRequest, cri::PodSandboxStatusResponse>(
        "/runtime.v1.RuntimeService/PodSandboxStatus", [](auto& request) {
          cri::PodSandboxStatusResponse answer;
          auto network = request.pod_sandbox_id() == "p-node" ? cri::NODE : cri::POD;
          answer.mutable_status()
              ->mutable_linux()
              ->mutable_namespaces()
              ->mutable_options()
              ->set_network(network);
          return answer;
        });
    on<cri::ListImagesRequest, cri::ListImagesResponse>(
        "/runtime.v1.ImageService/ListImages", [](auto&) {
          cri::ListImagesResponse list;
          for (auto& [id, tag, digest] : {std::tuple("sha256:1", "r/own:v1", "r/own@sha256:2"),
                                          std::tuple("sha256:3", "", "r/old@sha256:4")}) {
            auto& image = *list.add_images();
            image.set_id(id);
            if (*tag != 0) image.add_repo_tags(tag);
            image.add_repo_digests(digest);
          }
          return list;
        });
    on<store::ListContainersRequest, store::ListContainersResponse>(
        "/containerd.services.containers.v1.Containers/List", [](auto&) {
          store::ListContainersResponse list;
          auto& pod = *list.add_containers();
          pod.set_id("p-own");
          pod.set_image("r/pause:3");
          return list;
        });
    on<tasks::ListTasksRequest, tasks::ListTasksResponse>(
        "/containerd.services.tasks.v1.Tasks/List", [](auto&) {
          tasks::ListTasksResponse list;
          for (auto& [id, pid] : {std::pair("p-own", 7), std::pair("c-own", 8)}) {
            list.add_tasks()->set_id(id);
            list.mutable_tasks(list.tasks_size() - 1)->set_pid(pid);
          }
          return list;
        });
    on<cri::StopContainerRequest, cri::StopContainerResponse>(
        "/runtime.v1.RuntimeService/StopContainer", [this](auto& request) {
          asked.push_back(request.container_id() + " " + std::to_string(request.timeout()));
          return cri::StopContainerResponse();
        });
    on<cri::StopPodSandboxRequest, cri::StopPodSandboxResponse>(
        "/runtime.v1.RuntimeService/StopPodSandbox", [this](auto& request) {
          asked.push_back(request.pod_sandbox_id());
          return cri::StopPodSandboxResponse();
        });
  }
};

// Catches: containers of pods that are gone or not ready, a container before its pod, a name that
// logs -k does not accept; an image that is shown by an unknown ID, although it has a name.
TEST_F(ContainersModelTest, PodsAreShownWithTheirContainers) {
  twoPods();
  auto facts = podContainers(containerd).wait(scope);
  std::vector<std::string> rows;
  for (auto& f : facts) {
    rows.push_back(kj::str(f.id, " ", f.image, " ", f.pid, " ", f.status).cStr());
    EXPECT_EQ(f.nameSpace, "k8s.io");
  }
  EXPECT_THAT(rows, ElementsAre("kube-system/node  0 SANDBOX_READY",
                                "kube-system/node:main example.com/c-node 0 CONTAINER_RUNNING",
                                "kube-system/own r/pause:3 7 SANDBOX_READY",
                                "kube-system/own:main r/own:v1 8 CONTAINER_RUNNING",
                                "kube-system/own:main r/old@sha256:4 0 CONTAINER_EXITED"));
}

// Catches: a pod with no use, or with the use of another one.
TEST_F(ContainersModelTest, APodUsesWhatItsContainersUse) {
  twoPods();
  on<cri::ListContainerStatsRequest, cri::ListContainerStatsResponse>(
      "/runtime.v1.RuntimeService/ListContainerStats", [](auto&) {
        cri::ListContainerStatsResponse list;
        for (auto& [id, bytes] : {std::pair("c-old", 1), std::pair("c-own", 20),
                                  std::pair("c-node", 300), std::pair("c-stray", 4000)}) {
          auto& one = *list.add_stats();
          one.mutable_attributes()->set_id(id);
          one.mutable_memory()->mutable_working_set_bytes()->set_value(bytes);
          one.mutable_cpu()->mutable_usage_core_nano_seconds()->set_value(7 * bytes);
        }
        return list;
      });
  std::vector<std::string> rows;
  for (auto& use : podUse(containerd).wait(scope)) {
    rows.push_back(kj::str(use.id, " ", use.memoryBytes, " ", use.cpuNanoseconds).cStr());
  }
  EXPECT_THAT(rows, ElementsAre("kube-system/node 300 2100", "kube-system/node:main 300 2100",
                                "kube-system/own 21 147", "kube-system/own:main 20 140",
                                "kube-system/own:main 1 7"));
}

// Catches: each image twice, as the CRI keeps it; an image that is left out although no other name
// exists: its tag names another image, or is in another repository.
TEST_F(ContainersModelTest, AnImageIsListedOnce) {
  namespace named = ::containerd::services::images::v1;
  on<named::ListImagesRequest, named::ListImagesResponse>(
      "/containerd.services.images.v1.Images/List", [](auto&) {
        named::ListImagesResponse list;
        for (auto& [name, digest] :
             {std::pair("r:5000/i:v1", "sha256:1"), std::pair("r:5000/i@sha256:1", "sha256:1"),
              std::pair("r:5000/i@sha256:2", "sha256:2"),
              std::pair("r:5000/j@sha256:1", "sha256:1"),
              std::pair("r:5000/i:v1-again", "sha256:1"), std::pair("sha256:c", "sha256:1")}) {
          auto& image = *list.add_images();
          image.set_name(name);
          image.mutable_target()->set_digest(digest);
        }
        return list;
      });
  on<cri::ListImagesRequest, cri::ListImagesResponse>(
      "/runtime.v1.ImageService/ListImages", [](auto&) { return cri::ListImagesResponse(); });
  std::vector<std::string> names;
  for (auto& image : images(containerd).wait(scope)) names.push_back(image.name.cStr());
  EXPECT_THAT(names, ElementsAre("r:5000/i:v1", "r:5000/i:v1-again", "r:5000/i@sha256:2",
                                 "r:5000/j@sha256:1"));
}

// Catches: a name that remains, so that the image is not pulled again, or that differs from the
// requested spelling; another image that is removed as well.
TEST_F(ContainersModelTest, AnImageIsForgottenByAllOfItsNames) {
  namespace named = ::containerd::services::images::v1;
  on<named::ListImagesRequest, named::ListImagesResponse>(
      "/containerd.services.images.v1.Images/List", [](auto&) {
        named::ListImagesResponse list;
        for (auto& [name, digest] :
             {std::pair("r/i:v1", "sha256:1"), std::pair("r/i:v2", "sha256:2"),
              std::pair("sha256:c", "sha256:2"), std::pair("r/i@sha256:4", "sha256:4"),
              std::pair("sha256:d", "sha256:4")}) {
          auto& image = *list.add_images();
          image.set_name(name);
          image.mutable_target()->set_digest(digest);
        }
        return list;
      });
  on<named::DeleteImageRequest, named::ListImagesResponse>(  // the response is as empty as Empty
      "/containerd.services.images.v1.Images/Delete", [this](auto& request) {
        EXPECT_TRUE(request.sync());
        asked.push_back(request.name());
        return named::ListImagesResponse();
      });
  on<cri::ImageStatusRequest, cri::ImageStatusResponse>(
      "/runtime.v1.ImageService/ImageStatus", [](auto& request) {
        cri::ImageStatusResponse answer;
        auto& name = request.image().image();
        if (name == "r/i:v2") answer.mutable_image()->set_id("sha256:c");
        if (name == "r/i:v4@sha256:4") answer.mutable_image()->set_id("sha256:d");
        return answer;
      });
  forgetImage(containerd, kj::str("r/i:v2")).wait(scope);
  EXPECT_THAT(asked, ElementsAre("r/i:v2", "sha256:c"));
  asked.clear();
  forgetImage(containerd, kj::str("r/i:v4@sha256:4")).wait(scope);
  EXPECT_THAT(asked, ElementsAre("r/i@sha256:4", "sha256:d")) << "the CRI drops the tag";
  asked.clear();
  forgetImage(containerd, kj::str("r/i:v3")).wait(scope);
  EXPECT_THAT(asked, ElementsAre());
  forgetImage(containerd, kj::str("r/i:v1")).wait(scope);
  EXPECT_THAT(asked, ElementsAre("r/i:v1")) << "one that the CRI does not know";
}

// Catches: a node's network that is removed before the pods' plugins have removed theirs; a
// container that is killed without its grace; one pod that cannot be stopped and keeps the others
// running.
TEST_F(ContainersModelTest, PodsWithTheirOwnNetworkAreStoppedFirst) {
  twoPods();
  std::vector<std::string> failures;
  auto fail = [&](kj::StringPtr line) { failures.push_back(line.cStr()); };
  stopPods(containerd, fail).wait(scope);
  EXPECT_THAT(asked, ElementsAre("c-own 30", "p-own", "c-node 30", "p-node"));
  EXPECT_THAT(failures, ElementsAre());
  asked.clear();
  server.methods["/runtime.v1.RuntimeService/StopContainer"] = [](auto& x) {
    if (x.ended) x.finish(2, "broken");
  };
  stopPods(containerd, fail).wait(scope);
  EXPECT_THAT(asked, ElementsAre("p-own", "p-node"));
  EXPECT_THAT(failures, ElementsAre("cannot stop the pod kube-system/own: broken",
                                    "cannot stop the pod kube-system/node: broken"));
  failures.clear();
  server.methods["/runtime.v1.RuntimeService/StopPodSandbox"] = [](auto& x) {
    if (x.ended) x.finish(2, "stuck");
  };
  stopPods(containerd, fail).wait(scope);
  EXPECT_THAT(failures, SizeIs(4)) << "containers and pods, the second group too";
  runs = false;
  server.drop();
  stopPods(containerd, fail).wait(scope);  // no containerd to call
}

// Catches: the wrong container of two, or of another pod, that is ended.
TEST_F(ContainersModelTest, OneIsEndedByItsName) {
  twoPods();
  endPodContainer(containerd, kj::str("kube-system/own:main")).wait(scope);
  EXPECT_THAT(asked, ElementsAre("c-own 10"));
  endPodContainer(containerd, kj::str("kube-system/node")).wait(scope);
  EXPECT_THAT(asked, ElementsAre("c-own 10", "p-node"));
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 endPodContainer(containerd, kj::str("kube-system/other")).wait(scope);
               })) {
    EXPECT_EQ(ErrorKind::kNotFound, kindOf(*e));
  } else {
    ADD_FAILURE();
  }
}

// Catches: a service that counts as healthy although its containerd reports otherwise; a check that
// gives up before the socket exists.
TEST_F(ContainersModelTest, ServingIsWhatItSays) {
  namespace health = ::grpc::health::v1;
  auto status = health::HealthCheckResponse::NOT_SERVING;
  on<health::HealthCheckRequest, health::HealthCheckResponse>("/grpc.health.v1.Health/Check",
                                                              [&](auto&) {
                                                                health::HealthCheckResponse answer;
                                                                answer.set_status(status);
                                                                return answer;
                                                              });
  auto refused = kj::runCatchingExceptions([&]() { containerd.serving().wait(scope); });
  EXPECT_EQ("containerd says that it does not serve (status 2)",
            messageOf(KJ_ASSERT_NONNULL(refused)));
  status = health::HealthCheckResponse::SERVING;
  server.drop();
  scope.poll();
  runs = false;
  auto waiting = containerd.serving();
  advance(timer, scope, 1 * kj::SECONDS);
  EXPECT_FALSE(waiting.poll(scope));
  runs = true;
  advance(timer, scope, 1 * kj::SECONDS);
  waiting.wait(scope);
}

// Catches: a pull that fails because containerd was restarted a moment before; a pull without an
// end.
TEST_F(ContainersModelTest, APullWaitsForACriThatStarts) {
  unsigned pulls = 0, refused = 2;
  server.methods["/runtime.v1.ImageService/PullImage"] = [&](auto& x) {
    if (!x.ended) return;
    if (pulls++ < refused) return x.finish(2, "server is not initialized yet");
    cri::PullImageResponse answer;
    answer.set_image_ref("sha256:1");
    x.send(answer.SerializeAsString());
    x.finish();
  };
  auto pulled = pullContent(containerd, kj::str("x"));
  advance(timer, scope, 1 * kj::SECONDS);
  ASSERT_TRUE(pulled.poll(scope));
  EXPECT_EQ(pulled.wait(scope), "sha256:1");
  EXPECT_EQ(pulls, 3u);
  refused = UINT_MAX;
  auto never = pullContent(containerd, kj::str("x"));
  advance(timer, scope, 29 * kj::SECONDS);
  EXPECT_FALSE(never.poll(scope));
  advance(timer, scope, 2 * kj::SECONDS);
  auto failed = kj::runCatchingExceptions([&]() { never.wait(scope); });
  EXPECT_EQ("cannot pull \"x\": server is not initialized yet",
            messageOf(KJ_ASSERT_NONNULL(failed)));
}

// Catches: pulls without a pause, for ever, or only once; a retry after "not found"; a pull of an
// image that the node has.
TEST_F(ContainersModelTest, AServiceTriesToPullForTwentyMinutes) {
  unsigned pulls = 0;
  int status = 2;
  bool there = false;
  on<cri::ImageStatusRequest, cri::ImageStatusResponse>(
      "/runtime.v1.ImageService/ImageStatus", [&](auto&) {
        cri::ImageStatusResponse answer;
        if (there) answer.mutable_image()->add_repo_digests("x@sha256:3");
        answer.mutable_image()->set_id(there ? "sha256:1" : "");
        return answer;
      });
  server.methods["/runtime.v1.ImageService/PullImage"] = [&](auto& x) {
    if (!x.ended) return;
    ++pulls;
    if (status != 0) return x.finish(status, "dial tcp: i/o timeout");
    cri::PullImageResponse answer;
    there = true;
    answer.set_image_ref("sha256:1");
    x.send(answer.SerializeAsString());
    x.finish();
  };
  on<content::InfoRequest, content::InfoResponse>(
      "/containerd.services.content.v1.Content/Info", [](auto& request) {
        content::InfoResponse answer;
        EXPECT_EQ("sha256:1", request.digest());
        (*answer.mutable_info()->mutable_labels())["containerd.io/gc.ref.snapshot.overlayfs"] =
            "sha256:2";
        return answer;
      });
  std::vector<std::string> notes;
  auto need = [&]() {
    return needImage(containerd, kj::str("x"),
                     [&](kj::StringPtr line) { notes.push_back(line.cStr()); });
  };
  auto never = need().then([](UnpackedImage) { return kj::str(); },
                           [](kj::Exception&& e) { return messageOf(e); });
  advance(timer, scope, 34 * kj::SECONDS);
  EXPECT_EQ(3u, pulls) << "at 0, 5 and 15 s";
  EXPECT_THAT(notes, ElementsAre("cannot pull \"x\": dial tcp: i/o timeout; retrying in 5 s",
                                 "cannot pull \"x\": dial tcp: i/o timeout; retrying in 10 s",
                                 "cannot pull \"x\": dial tcp: i/o timeout; retrying in 20 s"));
  advance(timer, scope, 20 * kj::MINUTES);
  EXPECT_EQ(never.wait(scope), "cannot pull \"x\": dial tcp: i/o timeout");
  EXPECT_LT(pulls, 30u);
  status = 5;
  pulls = 0;
  auto missing = need().then([](UnpackedImage) { return kj::str(); },
                             [](kj::Exception&& e) { return messageOf(e); });
  EXPECT_EQ(missing.wait(scope),
            "cannot pull \"x\": the registry has no such image; check the name and the tag");
  EXPECT_EQ(1u, pulls);
  status = 0;
  auto image = need().wait(scope);
  EXPECT_EQ(image.snapshot, "sha256:2");
  EXPECT_EQ(image.pinned, "x@sha256:3") << "by which it is pulled again";
}

// Catches: the digest of another image, pulled by the same name meanwhile and correctly signed,
// that is reported for the image that was pulled here.
TEST_F(ContainersModelTest, APulledImageIsTheOneThatIsReported) {
  on<cri::PullImageRequest, cri::PullImageResponse>("/runtime.v1.ImageService/PullImage",
                                                    [](auto&) {
                                                      cri::PullImageResponse answer;
                                                      answer.set_image_ref("sha256:bad");
                                                      return answer;
                                                    });
  for (auto now : {"sha256:good", ""}) {
    on<cri::ImageStatusRequest, cri::ImageStatusResponse>(
        "/runtime.v1.ImageService/ImageStatus", [now](auto&) {
          cri::ImageStatusResponse answer;
          answer.mutable_image()->set_id(now);
          answer.mutable_image()->add_repo_digests("r/i@sha256:signed");
          return answer;
        });
    auto failed =
        kj::runCatchingExceptions([&]() { pullImage(containerd, kj::str("r/i:v1")).wait(scope); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failed)), ErrorKind::kConflict);
    EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failed)).cStr(),
                HasSubstr("another image was pulled by that name meanwhile"));
  }
}

// Catches: an image that another client's pull has left without its unpacked layers, and that is
// reported as permanently unusable.
TEST_F(ContainersModelTest, AnImageThatIsNotUnpackedMayBeSoon) {
  on<cri::PullImageRequest, cri::PullImageResponse>("/runtime.v1.ImageService/PullImage",
                                                    [](auto&) {
                                                      cri::PullImageResponse answer;
                                                      answer.set_image_ref("sha256:1");
                                                      return answer;
                                                    });
  on<cri::ImageStatusRequest, cri::ImageStatusResponse>(
      "/runtime.v1.ImageService/ImageStatus", [](auto&) {
        cri::ImageStatusResponse answer;
        answer.mutable_image()->set_id("sha256:1");
        return answer;
      });
  on<content::InfoRequest, content::InfoResponse>("/containerd.services.content.v1.Content/Info",
                                                  [](auto&) { return content::InfoResponse(); });
  auto failed =
      kj::runCatchingExceptions([&]() { pullImage(containerd, kj::str("r/i:v1")).wait(scope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failed)), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            "cannot pull \"r/i:v1\": it was not unpacked; retry");
  EXPECT_TRUE(unpackedImage(containerd, kj::str("r/i:v1")).wait(scope) == nullptr);
}

// Catches: the digest of a config, by which no registry serves an image; another repository's name.
TEST(PinnedName, IsOfWhatWasPulled) {
  kj::String names[] = {kj::str("mirror:5000/a/x@sha256:1"), kj::str("ghcr.io/a/x@sha256:2")};
  EXPECT_EQ(pinnedName(names, "ghcr.io/a/x:v1"), "ghcr.io/a/x@sha256:2");
  EXPECT_EQ(pinnedName(names, "ghcr.io/a/x:v1@sha256:2"), "ghcr.io/a/x@sha256:2");
  EXPECT_EQ(pinnedName(names, "mirror:5000/a/x"), "mirror:5000/a/x@sha256:1");
  EXPECT_EQ(pinnedName(names, "x"), "mirror:5000/a/x@sha256:1");
  EXPECT_EQ(pinnedName(nullptr, "x"), "");
}

// Catches: messages that do not name the image.
TEST_F(ContainersModelTest, AnImageThatIsGoneIsNamed) {
  server.methods["/containerd.services.tasks.v1.Tasks/Get"] = [](auto& x) {
    if (x.ended) x.finish(5, "no such task");
  };
  on<cri::ImageStatusRequest, cri::ImageStatusResponse>(
      "/runtime.v1.ImageService/ImageStatus", [](auto&) { return cri::ImageStatusResponse(); });
  ContainerSpec spec;
  spec.id = kj::str("c");
  spec.image = kj::str("example.com/etcd:v3");
  auto failed = kj::runCatchingExceptions([&]() { runContainer(containerd, spec, 1).wait(scope); });
  EXPECT_EQ("image \"example.com/etcd:v3\" is not on this node",
            messageOf(KJ_ASSERT_NONNULL(failed)));
}

// Catches: a text of a config that becomes another part of the runtime's specification; a mount
// that is writable without a request.
TEST(RuntimeSpec, SaysWhatTheServiceWants) {
  ContainerSpec spec;
  spec.arguments = kj::arr(kj::str("/etcd"), kj::str("--name=a\"b\\\n"));
  spec.environment = kj::arr(kj::str("A=b"));
  spec.mounts = kj::arr(ContainerMount{kj::str("/var/lib/etcd"), kj::str("/data"), true},
                        ContainerMount{kj::str("/pki"), kj::str("/pki"), false});
  spec.cgroup = kj::str("system/etcd");
  spec.oomScore = -998;
  auto text = runtimeSpec(spec);
  for (auto part : {"\"args\":[\"/etcd\",\"--name=a\\\"b\\\\\\n\"]", "\"env\":[\"A=b\"]",
                    "\"oomScoreAdj\":-998", "\"cgroupsPath\":\"/system/etcd\"",
                    "{\"destination\":\"/data\",\"type\":\"bind\",\"source\":\"/var/lib/etcd\","
                    "\"options\":[\"rbind\",\"rw\"]}",
                    "{\"destination\":\"/pki\",\"type\":\"bind\",\"source\":\"/pki\",\"options\":["
                    "\"rbind\",\"ro\"]}"}) {
    EXPECT_THAT(text.cStr(), HasSubstr(part));
  }
}

// Catches: an error without its remedy.
TEST(PullProblem, SaysWhatToDo) {
  auto say = [](ErrorKind kind, kj::StringPtr text) {
    auto e = pullProblem("x", kind, text);
    return std::string(kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr());
  };
  EXPECT_EQ(
      "NotFound: cannot pull \"x\": the registry has no such image; check the name and the tag",
      say(ErrorKind::kNotFound,
          "failed to pull and unpack image \"x\": failed to resolve reference \"x\": x: not "
          "found"));
  EXPECT_EQ("Unavailable: cannot pull \"x\": dial tcp: refused",
            say(ErrorKind::kInternal,
                "failed to pull and unpack image \"x\": failed to resolve reference \"x\": dial "
                "tcp: refused"));
  EXPECT_THAT(say(ErrorKind::kFailedPrecondition, "unexpected commit digest a, expected b"),
              HasSubstr("Unavailable: cannot pull \"x\": the registry has sent other content"));
}

}  // namespace
}  // namespace talos::machined
