// Quantities of Kubernetes' API: 200m, 512Mi, 1.5, 1e3. Pure.
//
// Reference: Kubernetes' documentation of the API, "Quantity".
#pragma once

#include <kj/string.h>

namespace talos::config {

// Returns the quantity as a number: 0.2 for 200m; nullptr if the text is not a quantity, or less
// than 0.
kj::Maybe<double> parseQuantity(kj::StringPtr text);

}  // namespace talos::config
