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

struct ImageCacheControllerTest : public ::testing::Test {
  ~ImageCacheControllerTest() noexcept override {}

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::Maybe<bool> enabled;
  std::set<std::string> caches, mediaWithCache;  // folders; devices
  std::vector<std::string> media, said, mounts;  // labels of the media
  ImageCacheController controller{dependencies()};

  ImageCacheController::Dependencies dependencies() {
    return {
        .timer = timer,
        .enabled = [this](Store&) { return enabled; },
        .look = kj::Function<kj::Promise<kj::Vector<Volume>>()>([this]() {
          kj::Vector<Volume> volumes;
          for (auto& label : media) {
            Volume volume;
            volume.content = Superblock{FileSystem::kIso9660, kj::str(label.c_str())};
            volumes.add(kj::mv(volume));
          }
          return kj::Promise<kj::Vector<Volume>>(kj::mv(volumes));
        }),
        .hasCache =
            [this](kj::StringPtr root) { return kj::Promise<bool>(caches.count(root.cStr()) > 0); },
        .mount =
            [this](const Volume& volume) {
              mounts.push_back(volume.label().cStr());
              if (mediaWithCache.count(volume.label().cStr()) > 0)
                caches.insert(imagecache::kMediumRoot.cStr());
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
  std::string follow() {
    controller.reconcile(store).wait(scope);
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

}  // namespace
}  // namespace talos::machined
