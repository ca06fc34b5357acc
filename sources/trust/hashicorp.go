package trust

// hashicorpKey is the fingerprint of HashiCorp's primary key, the only key that is known without a setting.
const hashicorpKey = "C874011F0AB405110D02105534365D9472D7468F"
