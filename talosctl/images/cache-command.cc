#include "talosctl/images/cache-command.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "common/text/size.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/images/cache-folder.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostImages = 10'000, kMostListBytes = 1u << 20, kMostDockerConfig = 1u << 20;
constexpr kj::StringPtr kCertificates = "/etc/ssl/certs/ca-certificates.crt"_kj;

// Adds the images of a text: one a line, without blank lines and comments.
void addNames(kj::Vector<imagecache::ImageName>& images, kj::StringPtr text) {
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '\n') continue;
    auto line = trimmed(text.slice(begin, i));
    begin = kj::min(i + 1, text.size());
    if (line.size() == 0 || line[0] == '#') continue;
    images.add(imagecache::parseImageName(kj::heapString(line)));
  }
}

// --images is a list of names; a name that is - or a file stands for the names in it.
kj::Promise<kj::Vector<imagecache::ImageName>> imagesOf(Invocation& call) {
  kj::Vector<imagecache::ImageName> images;
  for (auto& item : call.list("images")) {
    bool isFile = item == "-" || item.startsWith("/") || item.startsWith("./");
    if (isFile) {
      addNames(images, co_await readFileOrInput(call.deps, item, kMostListBytes));
    } else {
      addNames(images, item);
    }
  }
  if (images.empty()) fail(ErrorKind::kInvalidArgument, "--images: the list has no image");
  if (images.size() > kMostImages) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--images: ", images.size(), " images; at most ", kMostImages, " are possible"));
  }
  co_return kj::mv(images);
}

// Returns an empty list for all platforms.
kj::Vector<kj::String> platformsOf(Invocation& call) {
  kj::Vector<kj::String> platforms;
  for (auto& platform : call.list("platform")) {
    if (platform == "all") return {};
    auto slash = platform.findFirst('/').orDefault(0);
    if (slash == 0 || slash + 1 == platform.size()) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("--platform: \"", platform,
                   "\" is not a valid platform; use for example linux/amd64, or all"));
    }
    platforms.add(kj::str(platform));
  }
  return platforms;
}

RegistrySettings settingsOf(Invocation& call) {
  RegistrySettings settings{.insecure = call.on("insecure"),
                            .mirrors = call.list("registry-mirror")};
  auto environment = [&](kj::StringPtr name) { return call.deps.environment(name); };
  kj::Maybe<kj::String> folder = environment("DOCKER_CONFIG");
  if (folder == nullptr) {
    folder = environment("HOME").map([](kj::String home) { return kj::str(home, "/.docker"); });
  }
  KJ_IF_MAYBE (path, folder)
    settings.dockerConfig = tryReadFile(kj::str(*path, "/config.json"), kMostDockerConfig);
  auto certificates = environment("SSL_CERT_FILE").orDefault(kj::str(kCertificates));
  KJ_IF_MAYBE (pem, tryReadFile(certificates)) settings.authorities = kj::mv(*pem);
  return settings;
}

kj::Promise<int> runCacheCreate(Invocation& call) {
  auto layout = call.text("layout");
  if (layout != "flat") {
    fail(ErrorKind::kUnimplemented,
         kj::str("--layout ", layout,
                 ": a cache is a folder here, as `make iso` and `cluster create` take it; use "
                 "--layout flat"));
  }
  if (call.text("image-cache-path").size() == 0) failUsage("--image-cache-path is empty");
  auto images = co_await imagesOf(call);
  auto platforms = platformsOf(call);
  RegistryClient client(call.deps, settingsOf(call));
  CacheFolder folder(call.text("image-cache-path"), call.on("force"));
  uint64_t bytes = 0;
  for (auto i : kj::indices(images)) {
    auto name = images[i].text();
    kj::Maybe<kj::Exception> failure;
    AddedImage added;
    co_await addImage(client, folder, images[i], platforms)
        .then([&](AddedImage&& result) { added = result; },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      fail(kindOf(*e), kj::str(name, ": ", messageOf(*e), "; run the command again to continue"));
    }
    bytes += added.bytes;
    call.err(kj::str("[", i + 1, "/", images.size(), "] ", name, ": ", added.blobs, " blobs, ",
                     decimalSize(added.bytes),
                     added.present > 0 ? kj::str("; ", added.present, " were there") : kj::str(),
                     "\n"));
  }
  folder.finish();
  call.err(kj::str("wrote ", images.size(), " images to ", call.text("image-cache-path"), ": ",
                   decimalSize(bytes), " fetched\n"));
  co_return 0;
}

}  // namespace

void addImageCacheCommand(Command& root) {
  auto& command =
      KJ_ASSERT_NONNULL(root.child("image"))
          .add("cache-create", "Pull images into a folder, for nodes without a registry");
  command.details =
      "Fetches the images by https and checks their digests. Nodes take them from the ISO of `make "
      "iso IMAGE_CACHE=<folder>`, or, in containers, from `cluster create --image-cache <folder>`, "
      "if machine.features.imageCache.localEnabled is true. Users and passwords of registries are "
      "those of Docker's config.json. After an interruption the same command continues. Calls no "
      "node.";
  command.examples = "talosctl image cache-create --images images.txt --image-cache-path cache";
  command.timeout = 24 * kj::HOURS;
  command.run = runCacheCreate;
  command.flag({.name = "image-cache-path",
                .kind = FlagKind::kText,
                .help = "folder to make",
                .required = true});
  command.flag({.name = "images",
                .kind = FlagKind::kList,
                .help = "names of images; - or a file, with its path, has one a line",
                .required = true});
  command.flag({.name = "platform",
                .kind = FlagKind::kList,
                .fallback = "linux/amd64",
                .help = "platforms of the images, or all"});
  command.flag({.name = "layout",
                .kind = FlagKind::kText,
                .fallback = "flat",
                .help = "layout of the folder: flat"});
  command.flag({.name = "force", .help = "add the images to a cache that exists"});
  command.flag({.name = "insecure", .help = "use plain HTTP for registries, without TLS"});
  command.flag({.name = "registry-mirror",
                .kind = FlagKind::kList,
                .help = "registry to ask first, <registry host>=<URL>; * is every registry"});
}

}  // namespace talos::talosctl
