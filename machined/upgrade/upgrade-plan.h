// An upgrade on its way from a request to a plan. The request is what a caller wants; the plan is
// what the node has accepted, and is const from then on. Values only.
#pragma once

#include "machined/services/containers/container-images.h"
#include "machined/upgrade/image-archives.h"

namespace talos::machined {

struct UpgradeRequest {
  kj::String image;  // a reference of a registry, a URL of an archive, or a file's name
  bool preserve = false;
  unsigned healthTimeoutS = 0;  // 0: the default
  kj::String query = nullptr;   // of the URL
  kj::Maybe<ClientFile> file = nullptr;
  bool force = false;  // regardless of etcd and of the version floor
  bool stage = false;  // it is tried at the next reboot
  bool live = false;   // without a reboot
};

// The content of a slot: an unpacked image, or the places of its files in an archive.
using NewSystem = kj::OneOf<ImageView, ImageArchive>;

// An image on the node that has the digest which the request names, if it names one, and a
// signature by the config's key, if the config has one.
struct VerifiedImage {
  kj::String digest;  // an `image` of a request with which another node gets the same image
  NewSystem content;
  bool wasKept = false;  // an earlier request has fetched it
};

// The facts about an image that a caller has fetched for later.
struct FetchedImage {
  kj::String digest, version;
  bool isSigned;
};

// An upgrade that the node carries out without its caller.
struct UpgradePlan {
  kj::String image;  // the name in the request, without secrets
  VerifiedImage system;
  bool preserve, force, stage, live;
  unsigned healthTimeoutS;

  // A node that keeps its member of etcd, and reboots, has taken its turn to restart.
  bool hasTurn() const { return preserve && !stage; }
};

}  // namespace talos::machined
