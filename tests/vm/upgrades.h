// For tests of upgrades: images of the running build, where a node can fetch them, and a node that
// is upgraded.
//
// The images come from a registry and from a web server on the host's loopback, and as a file with
// the request; the host is a network namespace of this process, so its ports are its own.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"
#include "tests/harness/web.h"

namespace talos::vm {

constexpr double kComesUp = 480;  // emulated, beside any other load

// Images of the running build, made as `make installer-image` makes them, in `folder`. Each method
// throws with the output of the program that failed.
class Images {
 public:
  explicit Images(std::string folder);

  // Returns stdout of a program that must succeed.
  static std::string must(const std::vector<std::string>& words);

  // `changes` are those of rootfs/image.sh: TREE=, REMOVE=.
  void make(const std::string& version, const std::vector<std::string>& changes);

  // Each returns the image's name for --image.
  std::string file(const std::string& version) { return tarOf(version); }
  std::string inRegistry(const std::string& version);
  std::string onServer(const std::string& version);
  // Builds an image FROM an installer image, as the users' documents customize the kernel and the
  // root.
  std::string derived(const std::string& from, const std::string& version);
  // Builds the image `from` with a root image that was cut off, in a separate layer.
  std::string truncated(const std::string& from, const std::string& version);

  // Signs an image in the registry by this private key, with the signature where cosign puts it.
  void sign(const std::string& version, const std::string& key);

  // Returns the digest of an image in the registry, as the registry reports it: sha256:….
  static std::string digestOf(const std::string& version);

 private:
  std::string folder;
  harness::Registry registry;
  harness::Web server;

  std::vector<std::string> buildah(const std::vector<std::string>& more) const;
  std::string tarOf(const std::string& version) { return folder + "/" + version + ".tar"; }
  static void push(const std::string& what, const std::string& version);
};

class Upgrade : public harness::RegistryHost {
 protected:
  ~Upgrade() noexcept override {}

  // Returns a value for TREE=: this program of the system ends at once. Without init the kernel
  // panics.
  std::string ending(const std::string& program);
  std::string listOf(const std::string& path);
};

// Returns the flags of `cluster create` for one node that finds the images.
std::vector<std::string> upgradeFlags(const std::vector<std::string>& more);

struct Machine {
  harness::Cluster& cluster;
  std::string name;

  harness::Result upgradeTo(const std::string& image, std::vector<std::string> more = {});
  std::string status();
  std::string record();  // the status without the text about the resource itself
  std::string slot();    // empty if the node does not answer
  bool tells(const std::string& text);
  void expectBackOn(const std::string& slotName, const harness::Result& result,
                    const std::string& reason);
};

}  // namespace talos::vm
