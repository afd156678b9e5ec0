// Checks system extensions and writes their list (rootfs/extensions.sh):
//   extension-layers ROOT VERSION TOP FOLDER NAME [FOLDER NAME…]
// ROOT: the tree of the root image; VERSION: that of Talos, or "": that of this release; TOP: the
// folder of the uppermost layer, which gets the list of extensions, for users in etc and for the
// node in usr/share; each FOLDER has an extension, which the user has named NAME. Prints a line for
// each extension, its name and version, and "modules" if the kernel's index of modules has to be
// made again.
#include <capnp/serialize.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/standard-streams.h"
#include "common/base/version.h"
#include "common/yaml/yaml-codec.h"
#include "rootfs/extension-layers/extension-tree.h"

namespace {

using namespace talos;

constexpr size_t kFirst = 3;  // the index of the first folder
constexpr mode_t kMode = 0644;

void write(kj::StringPtr top, extension::ImageExtensions::Reader image) {
  capnp::MallocMessageBuilder list;
  list.initRoot<extension::ExtensionList>().setLayers(image.getLayers());
  auto text = codec::writeYaml(list.getRoot<extension::ExtensionList>().asReader(),
                               {.empties = codec::Empties::kOmit});
  writeFileAtomically(kj::str(top, extension::kListFile), text, kMode);
  capnp::MallocMessageBuilder copy;
  copy.setRoot(image);
  auto words = capnp::messageToFlatArray(copy);
  writeFileAtomically(kj::str(top, extension::kImageFile), words.asChars(), kMode);
}

// Returns the exit status.
int makeTop(kj::ArrayPtr<const kj::StringPtr> words) {
  if (words.size() <= kFirst || (words.size() - kFirst) % 2 != 0) {
    fail(ErrorKind::kInvalidArgument, "usage: ROOT VERSION TOP FOLDER NAME [FOLDER NAME...]");
  }
  auto version = words[1].size() > 0 ? words[1] : buildVersion().tag;
  extension::ExtensionTrees trees(words[0], version);
  for (size_t i = kFirst; i < words.size(); i += 2) {
    trees.add(extension::GivenExtension{kj::str(words[i]), kj::str(words[i + 1])});
  }
  for (auto& warning : trees.warnings()) {
    fprintf(stderr, "extensions: warning: %s\n", warning.cStr());
  }
  for (auto& error : trees.errors()) fprintf(stderr, "extensions: %s\n", error.cStr());
  if (trees.errors().size() > 0) return 1;
  capnp::MallocMessageBuilder message;
  auto image = message.initRoot<extension::ImageExtensions>();
  trees.fill(image);
  write(words[2], image);
  for (auto layer : image.getLayers()) {
    auto metadata = layer.getMetadata();
    printf("%s %s\n", metadata.getName().cStr(), metadata.getVersion().cStr());
  }
  if (trees.hasModules()) puts("modules");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  openClosedStandardStreams();
  int status = 1;
  auto failure = kj::runCatchingExceptions([&] {
    auto words = KJ_MAP(word, kj::arrayPtr(argv, argc).slice(1, argc)) {
      return kj::StringPtr(word);
    };
    status = makeTop(words);
  });
  KJ_IF_MAYBE (e, failure) fprintf(stderr, "extensions: %s\n", messageOf(*e).cStr());
  return status;
}
