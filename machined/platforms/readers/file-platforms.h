// Files of platforms whose machine config is in a file of a disc or a volume, or in a variable of
// the virtual machine.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::platforms {

// Details of Azure: the machine config is on a disc, and a virtual machine must report that it is
// ready, or its creation fails after some 20 minutes. After "Create generalized images without a
// provisioning agent" of its documentation.

// Returns CustomData of ovf-env.xml, as it stands there: base64; empty if missing. The caller must
// zeroize() it. InvalidArgument if the file is not XML.
kj::Array<char> azureCustomData(kj::ArrayPtr<const char> ovfEnvironment);

// Returns the body of the report that answers a goal state: this machine is ready. InvalidArgument
// if the goal state is not XML, or does not name the subject of the report.
kj::String azureReadyReport(kj::ArrayPtr<const char> goalState);

// Details of OpenNebula.

// context.sh: KEY='value', of one or more lines, quoted as for a shell. The machine config is in
// USER_DATA (or USERDATA): base64 if USERDATA_ENCODING says so, else base64 or not.
class Context {
 public:
  static constexpr size_t kMostEntries = 1000;
  explicit Context(kj::ArrayPtr<const char> text);
  kj::StringPtr value(kj::StringPtr key) const;  // empty if missing

 private:
  struct Entry {
    kj::String key, value;
  };
  kj::Vector<Entry> entries;
};

// Details of VMware: everything is in variables of the virtual machine (guestinfo) or in its OVF
// environment, in base64, and nothing needs the network.

// Properties of an OVF environment, in the order of the search.
constexpr kj::StringPtr kConfigProperties[] = {"talos.config"_kj, "userdata"_kj};
constexpr kj::StringPtr kMetadataProperties[] = {"metadata"_kj};

// Returns the value of a property of an OVF environment ("OVF Environment" of DMTF's DSP0243);
// empty if missing. `what` is for the message: "guestinfo.ovfenv". The caller must zeroize() it.
// InvalidArgument.
kj::Array<char> ovfProperty(kj::StringPtr key, kj::StringPtr what,
                            kj::ArrayPtr<const char> environment);

// Returns an OVF environment with all properties but these, and nothing else. Returns nullptr if
// none of these has a value. InvalidArgument.
kj::Maybe<kj::String> ovfWithout(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                 kj::ArrayPtr<const char> environment);

}  // namespace talos::platforms
