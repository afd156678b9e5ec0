#include "machined/platforms/readers/ec2-keys.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readCloudstack(const Answers& answers, PlatformFacts& facts) {
  readKeys(answers, "cloudstack", facts);
}

}  // namespace talos::platforms
