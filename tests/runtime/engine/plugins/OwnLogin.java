package tests;

import org.apache.kafka.common.security.plain.PlainLoginModule;

/** A login module that only Java knows. */
public class OwnLogin extends PlainLoginModule { }
