// The network configuration of cloud-init ("Networking config Version 1" and "Version 2" of its
// documentation), as far as a node applies it.
#pragma once

#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/platform-facts.h"

namespace talos::platforms {

constexpr unsigned kLargestVlan = 4094;

// `root`: with or without the key "network" around it. InvalidArgument for a version that is
// neither 1 nor 2.
void readCloudNetwork(Value root, PlatformFacts& facts);

// The parts of it.
void readVersion1(Value network, PlatformFacts& facts);
void readVersion2(Value network, PlatformFacts& facts);

}  // namespace talos::platforms
