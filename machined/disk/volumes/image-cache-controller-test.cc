#include "machined/disk/volumes/image-cache-controller.h"

#include <gmock/gmock.h>

#include <set>

#include "common/image-cache/cache-layout.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ImageCacheControllerTest : public ::testing::Test {
  ~ImageCacheControllerTest() noexcept override {}

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::Maybe<bool> enabled;
  std::set<std::string> caches, mediaWithCache;            // folders; devices
  std::set<std::string> hanging;                           // labels of media
  kj::Own<kj::PromiseFulfiller<kj::AutoCloseFd>> hung;     // the last mount of these
  std::string opened;                                      // label of the last mount
  std::vector<std::string> media, said, mounts, attached;  // labels of the media
  ImageCacheController controller{dependencies()};

  ImageCacheController::Dependencies dependencies() {
    return {
        .timer = timer,
        .enabled = [this](Store&) { return enabled; },
        .look = kj::Function<kj::Promise<kj::Vector<Volume>>()>([this]() {
          kj::Vector<Volume> volumes;
          for (auto& label : media) {
            Volume volume;
            volume.device.name = kj::str(label.c_str());
            volume.content = Superblock{FileSystem::kIso9660, kj::str(label.c_str())};
            volumes.add(kj::mv(volume));
          }
          return kj::Promise<kj::Vector<Volume>>(kj::mv(volumes));
        }),
        .hasCache =
            [this](kj::StringPtr root) { return kj::Promise<bool>(caches.count(root.cStr()) > 0); },
        .open =
            [this](const Volume& volume) {
              opened = volume.label().cStr();
              mounts.push_back(opened);
              if (!hanging.contains(opened)) return kj::Promise<kj::AutoCloseFd>(kj::AutoCloseFd());
              auto paf = kj::newPromiseAndFulfiller<kj::AutoCloseFd>();
              hung = kj::mv(paf.fulfiller);
              return kj::mv(paf.promise);
            },
        .attach =
            [this](kj::AutoCloseFd) {
              attached.push_back(opened);
              if (mediaWithCache.contains(opened)) caches.insert(imagecache::kMediumRoot.cStr());
              return kj::Promise<void>(kj::READY_NOW);
            },
        .unmount =
            [this]() {
              caches.erase(imagecache::kMediumRoot.cStr());
              return kj::Promise<void>(kj::READY_NOW);
            },
        .say = [this](kj::StringPtr line) { said.push_back(line.cStr()); },
        .next = []() { return kj::Promise<void>(kj::NEVER_DONE); }};
  }
  // With `lasts`, the controller waits so long for media.
  std::string follow(kj::Duration lasts = 0 * kj::SECONDS) {
    auto work = controller.reconcile(store);
    if (lasts > 0 * kj::SECONDS) {
      EXPECT_FALSE(work.poll(scope));
      timer.advanceTo(timer.now() + lasts);
    }
    EXPECT_TRUE(work.poll(scope));
    work.wait(scope);
    auto spec = KJ_ASSERT_NONNULL(store.tryGet<rpc::ImageCacheConfigSpec>("image-cache"));
    auto text = kj::str(spec.getStatus(), " ", spec.getCopyStatus());
    for (auto root : spec.getRoots()) text = kj::str(text, " ", root);
    return text.cStr();
  }
  void serve(bool healthy) {
    putRecord<rpc::ServiceSpec>(store, "registryd", [&](auto spec) {
      spec.setRunning(true);
      spec.setHealthy(healthy);
    });
  }
};

// Catches: a cache that is used although the config does not enable it, or that a restarted brain
// forgets before it knows the config.
TEST_F(ImageCacheControllerTest, IsOffUnlessTheConfigEnablesIt) {
  caches = {imagecache::kDiskRoot.cStr()};
  EXPECT_EQ("disabled skipped", follow());
  enabled = false;
  EXPECT_EQ("disabled skipped", follow());
  enabled = true;
  EXPECT_EQ("preparing skipped /system/imagecache/disk", follow());
  enabled = nullptr;
  EXPECT_EQ("preparing skipped /system/imagecache/disk", follow());
}

// Catches: "ready" while nothing serves the images.
TEST_F(ImageCacheControllerTest, IsReadyWhenItIsServed) {
  caches = {imagecache::kDiskRoot.cStr()};
  enabled = true;
  serve(false);
  EXPECT_EQ("preparing skipped /system/imagecache/disk", follow());
  serve(true);
  EXPECT_EQ("ready skipped /system/imagecache/disk", follow());
}

// Catches: another disc than one of this system, a medium without images, one that comes later, one
// that was pulled out.
TEST_F(ImageCacheControllerTest, FindsTheMediumWithImages) {
  enabled = true;
  media = {"cidata", "TALOSX", "TALOS"};
  EXPECT_EQ("disabled skipped", follow());
  EXPECT_EQ("disabled skipped", follow());
  EXPECT_THAT(mounts, ElementsAre("TALOS", "TALOS"));
  EXPECT_EQ(said.size(), 1u);
  media.push_back("TALOS_V1");
  mediaWithCache = {"TALOS_V1"};
  serve(true);
  EXPECT_EQ("ready skipped /system/imagecache/iso/imagecache", follow());
  EXPECT_EQ("ready skipped /system/imagecache/iso/imagecache", follow());
  EXPECT_EQ(mounts.size(), 4u) << "it is not mounted again";
  caches.clear();
  media.pop_back();
  EXPECT_EQ("disabled skipped", follow());
  enabled = false;
  EXPECT_EQ("disabled skipped", follow());
}

constexpr auto kLimit = ImageCacheController::kMediumTimeout;

// Catches: a medium that hangs and keeps the node from the images of another one; a thread of the
// pool for each look at it; a node that does not look again when the medium has answered.
TEST_F(ImageCacheControllerTest, AMediumThatHangsIsGivenUp) {
  enabled = true;
  media = {"TALOS", "TALOS_V1"};
  mediaWithCache = {"TALOS", "TALOS_V1"};
  hanging = {"TALOS"};
  unsigned wakes = 0;
  controller.wakeBy([&] { ++wakes; });
  EXPECT_EQ("preparing skipped /system/imagecache/iso/imagecache", follow(kLimit));
  EXPECT_THAT(attached, ElementsAre("TALOS_V1"));
  caches.clear();
  media.pop_back();
  EXPECT_EQ("disabled skipped", follow());
  EXPECT_THAT(said.back(),
              HasSubstr("the medium TALOS cannot be read: mounting /dev/TALOS has timed out, and "
                        "has not ended yet"));
  EXPECT_THAT(mounts, ElementsAre("TALOS", "TALOS_V1"));

  auto next = [&] {
    timer.advanceTo(timer.now() + 1 * kj::SECONDS);
    scope.poll();
    return wakes;
  };
  EXPECT_EQ(next(), 0u);
  hung->fulfill(kj::AutoCloseFd());
  scope.poll();
  EXPECT_EQ(next(), 1u);
  EXPECT_THAT(attached, ElementsAre("TALOS_V1")) << "a late mount is dropped";
  hanging.clear();
  EXPECT_EQ("preparing skipped /system/imagecache/iso/imagecache", follow());
  EXPECT_EQ(next(), 1u) << "a call that has not timed out wakes nothing";
}

// Catches: a timeout without the device that is waited for.
TEST_F(ImageCacheControllerTest, ATimeoutNamesTheMedium) {
  enabled = true;
  media = {"TALOS"};
  hanging = {"TALOS"};
  EXPECT_EQ("disabled skipped", follow(kLimit));
  EXPECT_THAT(said.back(), HasSubstr("mounting /dev/TALOS timed out after 60 s"));
}

}  // namespace
}  // namespace talos::machined
